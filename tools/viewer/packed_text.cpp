#include "viewer/packed_text.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "megaflux/base/check.h"

namespace megaflux::viewer {
namespace {

constexpr size_t kPieceBytes = 1 << 16;
constexpr int kRawWindowBits = -15;  // negative: no zlib header
constexpr int kMemoryLevel = 8;

constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

struct Deflater::Stream {
  z_stream zlib = {};
  std::array<std::byte, kPieceBytes> piece;
};

Deflater::Deflater(Sink sink) : sink_(std::move(sink)), stream_(std::make_unique<Stream>()) {
  const int status = deflateInit2(&stream_->zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRawWindowBits,
                                  kMemoryLevel, Z_DEFAULT_STRATEGY);
  MF_INVARIANT(status == Z_OK, "deflateInit2: ", status);
}

Deflater::~Deflater() {
  deflateEnd(&stream_->zlib);
}

void Deflater::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t taken = std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max());
    // zlib does not write there; its interface is older than const.
    stream_->zlib.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
    stream_->zlib.avail_in = static_cast<uInt>(taken);
    run(Z_NO_FLUSH);
    bytes = bytes.subspan(taken);
  }
}

void Deflater::finish() {
  stream_->zlib.avail_in = 0;
  run(Z_FINISH);
}

void Deflater::run(int flush) {
  z_stream& zlib = stream_->zlib;
  do {
    zlib.next_out = reinterpret_cast<Bytef*>(stream_->piece.data());
    zlib.avail_out = kPieceBytes;
    const int status = deflate(&zlib, flush);
    MF_INVARIANT(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR,
                 "deflate: ", status);
    sink_(std::span(stream_->piece).first(kPieceBytes - zlib.avail_out));
  } while (zlib.avail_out == 0);
}

void Base64Text::add(std::span<const std::byte> bytes) {
  text_.clear();
  text_.reserve(bytes.size() / 3 * 4 + 8);
  for (const std::byte byte : bytes) {
    bits_ = bits_ << 8 | static_cast<uint32_t>(byte);
    if (++num_bytes_ < 3) continue;
    add_group(bits_, 4);
    bits_ = 0;
    num_bytes_ = 0;
  }
  sink_(text_);
}

void Base64Text::finish() {
  text_.clear();
  if (num_bytes_ > 0) add_group(bits_ << (24 - 8 * num_bytes_), num_bytes_ + 1);
  sink_(text_);
}

void Base64Text::add_group(uint32_t bits, int letters) {
  for (int i = 0; i < 4; ++i) {
    text_ += i < letters ? kLetters[bits >> (18 - 6 * i) & 63] : '=';
  }
}

}  // namespace megaflux::viewer
