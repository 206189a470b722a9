// Progress of work that may take more than a second: one line on standard error, on a terminal
// only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace megaflux::cli {

// A bar over `total` steps with the name of the current one and the seconds so far. A thread of its
// own keeps the seconds going while a step runs. Nothing is drawn before one second has passed, and
// the line is wiped when the object goes.
class Progress {
 public:
  explicit Progress(int total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Step `done` + 1 of the total begins.
  void step(int done, const std::string& name);

 private:
  void keep_drawing(std::stop_token stop);
  void draw();

  const bool is_visible_;
  const int total_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable_any wake_;
  int done_ = 0;
  bool was_drawn_ = false;
  std::string name_;
  std::jthread drawer_;
};

}  // namespace megaflux::cli
