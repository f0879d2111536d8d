// Rows of examples that each have a class.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "framework/data/examples/examples.h"

namespace longspan {

// What was read of an example.
struct ClassRow {
  std::int64_t length = 0;  // columns of the row that it fills
  std::int64_t bytes = 0;
  std::int64_t label = 0;
};

// The batch that is asked for: the field of that name [rows, columns], whose rows `read` fills, of
// what was zeros, and "length" and "label" [rows].
using ReadClassRow = std::function<ClassRow(std::int64_t example, std::span<std::int64_t> row)>;
Batch read_class_rows(const BatchRequest& request,
                      const std::string& field,
                      const ReadClassRow& read);

}  // namespace longspan
