// Charts of a report: grouping, titles and units of columns.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

struct Chart {
  std::string title;  // "Norm of the gradient"
  std::string unit;   // of the axis: "GB"; empty: dimensionless
  double factor = 1;  // from the logged number to that unit
  // Columns of metrics.jsonl. The first is a solid line and the others are dashed in its color; a
  // stacked chart shows all as stacked areas.
  std::vector<std::string> columns;
  bool is_stacked = false;  // of one run; otherwise runs are overlaid
};

// Title and unit of a column.
struct ColumnText {
  std::string title;
  std::string unit;
  double factor = 1;
};
ColumnText text_of_column(std::string_view name);

// A per-class column: "validation_f1/PERSON". Nothing for others, such as the loss on one file,
// "validation_loss:a/b.txt".
struct ClassColumn {
  std::string figure;  // "f1"
  std::string name;    // "PERSON"
};
std::optional<ClassColumn> class_column_of(std::string_view column);

// Returns charts of all columns but per-class ones, in order of importance. Unknown columns come
// last, in the given order.
std::vector<Chart> charts_of(std::span<const std::string> columns);

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
