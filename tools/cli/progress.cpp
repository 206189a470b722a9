#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal.h"
#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

constexpr auto kQuietTime = std::chrono::seconds(1);
constexpr auto kPeriod = std::chrono::milliseconds(200);
constexpr int kBarColumns = 24;

}  // namespace

Progress::Progress(int total)
    : is_visible_(is_terminal(STDERR_FILENO)), total_(std::max(total, 1)) {
  if (is_visible_) drawer_ = std::jthread([this](std::stop_token stop) { keep_drawing(stop); });
}

Progress::~Progress() {
  if (!is_visible_) return;
  drawer_.request_stop();
  drawer_.join();
  if (was_drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::step(int done, const std::string& name) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  name_ = name;
}

void Progress::keep_drawing(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kPeriod, [] { return false; });
    if (!stop.stop_requested() && std::chrono::steady_clock::now() - begin_ >= kQuietTime) draw();
  }
}

void Progress::draw() {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double fraction = static_cast<double>(done_) / total_;
  fmt::print(stderr, "\r[{}] {}/{} {}, {:.0f} s\x1b[K",
             bar(style_of(STDERR_FILENO), fraction, kBarColumns), done_, total_, printable(name_),
             seconds);
  std::fflush(stderr);
  was_drawn_ = true;
}

}  // namespace megaflux::cli
