// Bytes as text in a file: raw deflate (RFC 1951, no header), then base64 (RFC 4648), in a stream,
// so that no second copy of the bytes is ever held.
//
// Example: no bytes deflate to 03 00, which is "AwA=".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace megaflux::viewer {

// Deflates what is added and hands it on in pieces.
class Deflater {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;
  explicit Deflater(Sink sink);
  ~Deflater();
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void add(std::span<const std::byte> bytes);
  // Once, after everything was added.
  void finish();

 private:
  struct Stream;
  void run(int flush);

  Sink sink_;
  std::unique_ptr<Stream> stream_;
};

// Collects the base64 of bytes that come in pieces of any size.
class Base64Text {
 public:
  using Sink = std::function<void(const std::string&)>;
  explicit Base64Text(Sink sink) : sink_(std::move(sink)) {}

  void add(std::span<const std::byte> bytes);
  // Once: the last one or two bytes and their padding.
  void finish();

 private:
  void add_group(uint32_t bits, int letters);

  Sink sink_;
  uint32_t bits_ = 0;  // of the group that is being filled
  int num_bytes_ = 0;  // in it
  std::string text_;
};

}  // namespace megaflux::viewer
