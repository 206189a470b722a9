// Test cases that take processes of their own: each starts this program again on a disabled test,
// which reads what it is told from the environment.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace megaflux::test {

inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// This program on the disabled tests that `filter` names, with `variables` ("NAME=value") added.
inline pid_t start_worker(const std::string& filter, const std::vector<std::string>& variables) {
  std::vector<std::string> words;
  for (char** word = environ; *word != nullptr; ++word) words.emplace_back(*word);
  words.insert(words.end(), variables.begin(), variables.end());
  std::vector<char*> environment;
  for (std::string& word : words) environment.push_back(word.data());
  environment.push_back(nullptr);
  std::string arguments[] = {"gpu_test", "--gtest_filter=" + filter,
                             "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  char* const argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                        arguments[3].data(), nullptr};
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv, environment.data()), 0);
  return child;
}

// The exit status; 128 + the signal if one ended it; -1 after a minute.
inline int status_of(pid_t child) {
  using namespace std::chrono_literals;
  for (int i = 0; i < 6000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    std::this_thread::sleep_for(10ms);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

}  // namespace megaflux::test
