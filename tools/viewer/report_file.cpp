#include "viewer/report_file.h"

#include "megaflux/trace/whole_file.h"
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
  return write_file_with(path, option + ": " + path,
                         [&](std::ostream& out) { write_report(out, page, meta, blob); });
}

}  // namespace megaflux::viewer
