// The chart library of the reports, as found at build time.
#pragma once

#include <string_view>

namespace longspan {

// dygraphs (https://dygraphs.com), to be embedded in a page.
struct ChartLibrary {
  std::string_view name;     // "dygraphs 2.2.1"
  std::string_view script;   // JavaScript
  std::string_view style;    // CSS
  std::string_view license;  // plain text
};

// Returns null where the build did not find it.
const ChartLibrary* chart_library();

// Return the page's own JavaScript and CSS.
std::string_view page_script();
std::string_view page_style();

}  // namespace longspan
