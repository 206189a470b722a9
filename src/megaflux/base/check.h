// Errors of the library: one exception type, one macro. Expected outcomes (no legal plan, too
// little memory) are return values, never exceptions. Depends on the standard library only.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace megaflux {

// What kind of failure an Error reports; the CLI and the C ABI map these to exit and return codes.
enum class ErrorCode {
  kBadInput,     // an argument, a file or a configuration is wrong; nothing was changed
  kUnsupported,  // legal, but this build or backend does not do it
  kTimeout,      // a bounded wait ran out; the session is poisoned until recover()
  kDisagree,     // ranks entered the same epoch with different op, layer, plan or configuration
  kInternal,     // an invariant of the library is broken
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

template <typename... Parts>
[[noreturn]] void throw_error(ErrorCode code, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(code, message.str());
}

}  // namespace megaflux

// MF_CHECK(ranks >= 1 && ranks <= 1024, "--ranks: ", ranks, " is outside [1, 1024]")
// For input from outside. The words name the argument, its value and the limit.
#define MF_CHECK(condition, ...)                                              \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::megaflux::throw_error(::megaflux::ErrorCode::kBadInput, __VA_ARGS__); \
  } while (false)

// For our own invariants: a failure is a bug of the library, and the message says where.
#define MF_INVARIANT(condition, ...)                                                           \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::megaflux::throw_error(::megaflux::ErrorCode::kInternal, __FILE__, ":", __LINE__, ": ", \
                              __VA_ARGS__);                                                    \
  } while (false)
