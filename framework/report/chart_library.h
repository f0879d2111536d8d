// The library that draws the curves of a report, as the build found it.
#pragma once

#include <string_view>

namespace longspan {

// dygraphs (https://dygraphs.com), to be written into a page.
struct ChartLibrary {
  std::string_view name;     // "dygraphs 2.2.1"
  std::string_view script;   // JavaScript
  std::string_view style;    // CSS
  std::string_view licence;  // plain text
};

// Null where the build did not find it.
const ChartLibrary* chart_library();

// What the page does with it, of our own: JavaScript and CSS.
std::string_view page_script();
std::string_view page_style();

}  // namespace longspan
