#include "viewer/report_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "megaflux/base/check.h"
#include "viewer/packed_text.h"

namespace megaflux::viewer {

std::string element_json(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

void write_report(std::ostream& out, const PageSource& page, const Json& meta,
                  const ArrayBlob& blob) {
  out << page.head << "<script type=\"application/json\" id=\"report-meta\">" << element_json(meta)
      << "</script>\n<script type=\"application/octet-stream\" id=\"report-data\">";
  Base64Text text([&](const std::string& piece) { out << piece; });
  Deflater deflater([&](std::span<const std::byte> piece) { text.add(piece); });
  blob.for_each_piece([&](std::span<const std::byte> piece) { deflater.add(piece); });
  deflater.finish();
  text.finish();
  out << "</script>" << page.tail;
}

uint64_t write_report_file(const std::string& option, const std::string& path,
                           const PageSource& page, const Json& meta, const ArrayBlob& blob) {
  namespace fs = std::filesystem;
  const std::string part = path + ".part";
  errno = 0;
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  if (file) write_report(file, page, meta, blob);
  file.close();
  const int reason = errno != 0 ? errno : EIO;
  std::error_code error;
  if (file) {
    const uint64_t bytes = fs::file_size(part, error);
    if (!error) fs::rename(part, path, error);
    if (!error) return bytes;
  } else {
    error = std::error_code(reason, std::generic_category());
  }
  std::error_code ignored;
  fs::remove(part, ignored);
  throw_error(ErrorCode::kBadInput, option, ": ", path, ": cannot be written: ", error.message());
}

}  // namespace megaflux::viewer
