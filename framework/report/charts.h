// Which numbers of runs are shown together, and what they are called.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

struct Chart {
  std::string title;  // "Norm of the gradient"
  std::string unit;   // of the axis: "GB"; empty for a plain number
  double factor = 1;  // from the number in the lines to that unit
  // Columns of metrics.jsonl. The first is a line; what follows is dashed, in the same colour, or
  // where the chart is stacked all are areas one upon another.
  std::vector<std::string> columns;
  bool is_stacked = false;  // of one run; others are beside each other
};

// How a column is called and counted.
struct ColumnText {
  std::string title;
  std::string unit;
  double factor = 1;
};
ColumnText text_of_column(std::string_view name);

// A column that is of one class: "validation_f1/PERSON". Nothing for others, such as the loss on
// one file, "validation_loss:a/b.txt".
struct ClassColumn {
  std::string figure;  // "f1"
  std::string name;    // "PERSON"
};
std::optional<ClassColumn> class_column_of(std::string_view column);

// Charts of all columns but those of classes, what matters most first and what is not known by name
// at the end, in the order given.
std::vector<Chart> charts_of(std::span<const std::string> columns);

}  // namespace longspan
