#include "framework/report/chart_library.h"

#include "embedded_page.h"

namespace longspan {

const ChartLibrary* chart_library() {
  static constexpr ChartLibrary library = {embedded::library_name,
                                           embedded::library_script,
                                           embedded::library_style,
                                           embedded::library_license};
  return library.script.empty() ? nullptr : &library;
}

std::string_view page_script() { return embedded::page_script; }
std::string_view page_style() { return embedded::page_style; }

}  // namespace longspan
