// HostBuffer: aligned memory whose content is undefined until written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace megaflux {

class HostBuffer {
 public:
  // One cache line, and the widest vector register.
  static constexpr size_t kAlignment = 64;

  HostBuffer() = default;
  // With `is_poisoned` every byte is 0xff, which reads as NaN: tests show that nothing is read
  // unwritten.
  explicit HostBuffer(int64_t bytes, bool is_poisoned = false)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(
            ::operator new(static_cast<size_t>(bytes), std::align_val_t(kAlignment)))) {
    if (is_poisoned) std::memset(memory_.get(), 0xff, static_cast<size_t>(bytes));
  }

  int64_t bytes() const { return bytes_; }
  std::byte* data() const { return memory_.get(); }
  template <typename T>
  T* as(int64_t byte_offset = 0) const {
    return reinterpret_cast<T*>(memory_.get() + byte_offset);
  }

 private:
  struct Release {
    void operator()(std::byte* memory) const {
      ::operator delete(memory, std::align_val_t(kAlignment));
    }
  };
  int64_t bytes_ = 0;
  std::unique_ptr<std::byte, Release> memory_;
};

}  // namespace megaflux
