// report.html: the page with one report's data, complete in one file.
//
// The page is cut where the data stands; there go two elements: the JSON, in which every < is
// written as \u003c, so that no text from a trace ends the element or begins another, and the
// arrays, deflated and in base64.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "viewer/array_blob.h"
#include "viewer/page_source.h"

namespace megaflux::viewer {

inline constexpr const char* kReportSchema = "megaflux.report/1";

// Text that is no UTF-8 gets replacement characters.
std::string element_json(const Json& json);

void write_report(std::ostream& out, const PageSource& page, const Json& meta,
                  const ArrayBlob& blob);

// The same into a file, under another name until it is complete; returns its bytes. Throws
// kBadInput naming `option` and the path if it cannot be written; what was there before then still
// is.
uint64_t write_report_file(const std::string& option, const std::string& path,
                           const PageSource& page, const Json& meta, const ArrayBlob& blob);

}  // namespace megaflux::viewer
