#include "megaflux/comm/fd_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

// The ordinary data that goes with a descriptor.
struct Note {
  uint32_t sender = 0;
  uint32_t tag = 0;
};

struct Address {
  sockaddr_un address = {};
  socklen_t length = 0;
};

// A leading zero byte makes the name abstract: nothing in the file system, gone with the socket.
Address abstract_address(const std::string& name) {
  Address result;
  result.address.sun_family = AF_UNIX;
  MF_INVARIANT(name.size() + 1 <= sizeof(result.address.sun_path), "socket name ", name);
  name.copy(result.address.sun_path + 1, name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

std::string random_name() {
  uint64_t draw = 0;
  MF_INVARIANT(getrandom(&draw, sizeof(draw), 0) == sizeof(draw),
               "getrandom: ", std::strerror(errno));
  std::ostringstream name;
  name << "megaflux-" << std::hex << draw;
  return name.str();
}

[[noreturn]] void throw_system_error(const char* call) {
  throw_error(ErrorCode::kInternal, "exchange of file descriptors: ", call, ": ",
              std::strerror(errno));
}

// The message of one Note and room for one descriptor.
struct Message {
  explicit Message(Note& note) {
    part.iov_base = &note;
    part.iov_len = sizeof(Note);
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {};
  msghdr header = {};
};

void wait_until_readable(int fd, std::chrono::milliseconds deadline) {
  pollfd waited = {.fd = fd, .events = POLLIN, .revents = 0};
  int count = 0;
  do {
    count = poll(&waited, 1, static_cast<int>(deadline.count()));
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw_system_error("poll");
  if (count == 0) {
    throw_error(ErrorCode::kTimeout, "no file descriptor came within ", deadline.count(),
                " ms: a rank of the group is missing or stuck");
  }
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

int UniqueFd::release() {
  return std::exchange(fd_, -1);
}

FdExchange::FdExchange(std::chrono::milliseconds deadline)
    : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      name_(random_name()),
      deadline_(deadline) {
  if (socket_.get() < 0) throw_system_error("socket");
  const Address own = abstract_address(name_);
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own.address), own.length) != 0) {
    throw_system_error("bind");
  }
}

void FdExchange::send(const std::string& to, uint32_t sender, uint32_t tag, int fd) const {
  Note note{sender, tag};
  Message message(note);
  Address target = abstract_address(to);
  message.header.msg_name = &target.address;
  message.header.msg_namelen = target.length;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &fd, sizeof(int));
  const auto begin = std::chrono::steady_clock::now();
  while (sendmsg(socket_.get(), &message.header, 0) < 0) {
    if (errno != EAGAIN && errno != EINTR) throw_system_error("sendmsg");
    // The receiver's queue is full; it empties it unless it is stuck.
    if (std::chrono::steady_clock::now() - begin > deadline_) {
      throw_error(ErrorCode::kTimeout, "no file descriptor left within ", deadline_.count(),
                  " ms: a rank of the group is stuck");
    }
    poll(nullptr, 0, 1);
  }
}

FdExchange::Received FdExchange::receive() const {
  wait_until_readable(socket_.get(), deadline_);
  Note note;
  Message message(note);
  if (recvmsg(socket_.get(), &message.header, MSG_CMSG_CLOEXEC) != sizeof(Note)) {
    throw_system_error("recvmsg");
  }
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  MF_INVARIANT(rights != nullptr && rights->cmsg_type == SCM_RIGHTS,
               "a message without descriptor");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(rights), sizeof(int));
  return {note.sender, note.tag, UniqueFd(fd)};
}

}  // namespace megaflux
