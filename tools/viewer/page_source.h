// The page of a report, whole but for its data: html with styles, d3 and scripts inlined when the
// project was built (embed_page.cmake).
#pragma once

#include <string_view>

namespace megaflux::viewer {

struct PageSource {
  std::string_view head;  // up to where the data stands
  std::string_view tail;  // from there on
};

// The built-in page; library megaflux_report_page.
PageSource page_source();

}  // namespace megaflux::viewer
