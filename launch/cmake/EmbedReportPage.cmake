# What `longspan report` writes into a page, as texts in the program: dygraphs, where it is here with its licence, and the
# page's own script and style. DYGRAPHS_DIR is the folder of dygraph.min.js and dygraph.min.css; DYGRAPHS_LICENCE is a file.
find_path(DYGRAPHS_DIR dygraph.min.js PATHS /usr/share/javascript/dygraphs /usr/share/nodejs/dygraphs/dist
  NO_CMAKE_FIND_ROOT_PATH DOC "Folder of dygraph.min.js, which draws the curves of reports")
# The one beside the files; Debian keeps its own elsewhere.
if(DYGRAPHS_DIR)
  find_file(DYGRAPHS_LICENCE NAMES LICENSE.txt copyright NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
    PATHS ${DYGRAPHS_DIR} ${DYGRAPHS_DIR}/.. /usr/share/doc/libjs-dygraphs DOC "Licence of dygraphs")
endif()

set(page_folder ${CMAKE_SOURCE_DIR}/framework/report)
set(embedded ${page_folder}/page.js ${page_folder}/page.css)
file(READ ${page_folder}/page.js page_script)
file(READ ${page_folder}/page.css page_style)
foreach(text name script style licence)
  set(dygraphs_${text} "")
endforeach()
if(EXISTS "${DYGRAPHS_DIR}/dygraph.min.js" AND EXISTS "${DYGRAPHS_DIR}/dygraph.min.css" AND EXISTS "${DYGRAPHS_LICENCE}")
  file(READ ${DYGRAPHS_DIR}/dygraph.min.js dygraphs_script)
  file(READ ${DYGRAPHS_DIR}/dygraph.min.css dygraphs_style)
  file(READ ${DYGRAPHS_LICENCE} dygraphs_licence)
  list(APPEND embedded ${DYGRAPHS_DIR}/dygraph.min.js ${DYGRAPHS_DIR}/dygraph.min.css ${DYGRAPHS_LICENCE})
  string(REGEX MATCH "dygraphs/blob/v([0-9.]+)/" unused "${dygraphs_script}")
  string(STRIP "dygraphs ${CMAKE_MATCH_1}" dygraphs_name)
  # Debuggers would ask for these files.
  string(REGEX REPLACE "\n?//# sourceMappingURL=[^\n]*" "" dygraphs_script "${dygraphs_script}")
  string(REGEX REPLACE "\n?/\\*# sourceMappingURL=[^\n]*" "" dygraphs_style "${dygraphs_style}")
  message(STATUS "reports: curves by ${dygraphs_name}")
else()
  message(STATUS "no reports: dygraph.min.js, dygraph.min.css or the licence of dygraphs was not found")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${embedded})

# embed_report_page(TARGET): the header embedded_page.h for its sources.
function(embed_report_page TARGET)
  set(folder ${CMAKE_BINARY_DIR}/generated/report)
  file(CONFIGURE OUTPUT ${folder}/embedded_page.h @ONLY CONTENT
"// Made by launch/cmake/EmbedReportPage.cmake.
#pragma once
#include <string_view>
namespace longspan::embedded {
inline constexpr std::string_view library_name = R\"text~~(@dygraphs_name@)text~~\";
inline constexpr std::string_view library_script = R\"text~~(@dygraphs_script@)text~~\";
inline constexpr std::string_view library_style = R\"text~~(@dygraphs_style@)text~~\";
inline constexpr std::string_view library_licence = R\"text~~(@dygraphs_licence@)text~~\";
inline constexpr std::string_view page_script = R\"text~~(@page_script@)text~~\";
inline constexpr std::string_view page_style = R\"text~~(@page_style@)text~~\";
}
")
  target_include_directories(${TARGET} PRIVATE ${folder})
endfunction()
