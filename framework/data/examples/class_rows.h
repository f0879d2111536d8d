// Rows of labeled examples.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "framework/data/examples/examples.h"

namespace longspan {

// Metadata of an example that was read.
struct ClassRow {
  std::int64_t length = 0;  // columns of the row that it fills
  std::int64_t bytes = 0;
  std::int64_t label = 0;
};

// Returns the requested batch, with the named field [rows, columns], "length" and "label" [rows].
// `read` fills the rows of the field, which are initially 0.
using ReadClassRow = std::function<ClassRow(std::int64_t example, std::span<std::int64_t> row)>;
Batch read_class_rows(const BatchRequest& request,
                      const std::string& field,
                      const ReadClassRow& read);

}  // namespace longspan
