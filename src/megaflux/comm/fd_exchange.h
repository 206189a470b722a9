// FdExchange: file descriptors between the processes of a group on one machine, as GPU memory needs
// to be shared. Each process has a socket in the kernel's abstract namespace; who sends needs its
// name, which travels by other means.
//
// Example: rank 1 does send(name_of_rank_0, 1, fd); rank 0 does receive() -> {sender 1, fd'}, a
// descriptor of its own for the same object.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace megaflux {

// Owns one descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();
  int get() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

class FdExchange {
 public:
  // Waits of this object end after `deadline` with Error kTimeout. Throws kInternal with the
  // system's words if there is no socket.
  explicit FdExchange(std::chrono::milliseconds deadline);

  // At most 32 characters; no two sockets of the machine share it.
  const std::string& name() const { return name_; }

  // A copy of `fd` to the socket called `to`; `sender` and `tag` tell the receiver what it is.
  void send(const std::string& to, uint32_t sender, uint32_t tag, int fd) const;

  struct Received {
    uint32_t sender = 0;
    uint32_t tag = 0;
    UniqueFd fd;
  };
  // The next descriptor that anybody sent here.
  Received receive() const;

 private:
  UniqueFd socket_;
  std::string name_;
  std::chrono::milliseconds deadline_;
};

}  // namespace megaflux
