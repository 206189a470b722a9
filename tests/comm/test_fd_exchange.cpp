#include "megaflux/comm/fd_exchange.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

using namespace std::chrono_literals;

// An anonymous file with `text` in it.
UniqueFd file_of(const std::string& text) {
  UniqueFd fd(memfd_create("x", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return fd;
}

std::string text_of(const UniqueFd& fd) {
  char text[64] = {};
  const ssize_t count = pread(fd.get(), text, sizeof(text), 0);
  return {text, static_cast<size_t>(count < 0 ? 0 : count)};
}

bool is_open(int fd) {
  return fcntl(fd, F_GETFD) != -1;
}

TEST(UniqueFd, ClosesWhatItOwns) {
  int raw = -1;
  {
    UniqueFd first = file_of("a");
    raw = first.get();
    UniqueFd second = std::move(first);
    EXPECT_EQ(first.get(), -1);
    EXPECT_EQ(second.get(), raw);
    UniqueFd third = file_of("b");
    const int other = third.get();
    third = std::move(second);
    EXPECT_FALSE(is_open(other));
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(FdExchange, DescriptorsArriveWithSenderAndTag) {
  const FdExchange left(5s), right(5s);
  EXPECT_NE(left.name(), right.name());
  EXPECT_LE(left.name().size(), 32u);
  {
    const UniqueFd sent = file_of("weights");
    left.send(right.name(), 3, 17, sent.get());
    left.send(right.name(), 3, 18, sent.get());
  }
  for (const uint32_t tag : {17u, 18u}) {
    const FdExchange::Received received = right.receive();
    EXPECT_EQ(received.sender, 3u);
    EXPECT_EQ(received.tag, tag);
    EXPECT_EQ(text_of(received.fd), "weights");
    EXPECT_NE(fcntl(received.fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

// More than a socket's queue holds: the sender waits for the receiver.
TEST(FdExchange, ManyDescriptorsInARow) {
  const FdExchange left(10s), right(10s);
  constexpr uint32_t kCount = 200;
  std::thread sender([&] {
    const UniqueFd fd = file_of("x");
    for (uint32_t i = 0; i < kCount; ++i) left.send(right.name(), 0, i, fd.get());
  });
  for (uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(right.receive().tag, i);
  sender.join();
}

TEST(FdExchange, EveryWaitEnds) {
  const FdExchange alone(50ms), stuck(50ms);
  try {
    alone.receive();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_STREQ(error.what(),
                 "no file descriptor came within 50 ms: a rank of the group is missing or stuck");
  }
  const UniqueFd fd = file_of("x");
  const auto fill = [&] {
    for (int i = 0; i < 100'000; ++i) alone.send(stuck.name(), 0, 0, fd.get());
  };
  try {
    fill();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  }
}

TEST(FdExchange, NobodyThereIsAnError) {
  const FdExchange alone(1s);
  const UniqueFd fd = file_of("x");
  EXPECT_THROW(alone.send("megaflux-nobody", 0, 0, fd.get()), Error);
}

}  // namespace
}  // namespace megaflux
