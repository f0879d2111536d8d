#include "framework/data/examples/class_rows.h"

namespace longspan {

Batch read_class_rows(const BatchRequest& request,
                      const std::string& field,
                      const ReadClassRow& read) {
  const auto rows = std::ssize(request.examples);
  Batch batch;
  batch.fields = {{field, full_tensor({rows, request.columns.target}, 0)},
                  {"length", full_tensor({rows}, 0)},
                  {"label", full_tensor({rows}, ignored_target)}};
  batch.counts = {{"tokens", 0}, {"bytes", 0}, {"rows", 0}};
  for (std::size_t row = 0; row < request.examples.size(); ++row) {
    const std::int64_t example = request.examples[row];
    if (example < 0) continue;
    const ClassRow found = read(example, row_of(batch.field(field), row));
    batch.field("length").span<std::int64_t>()[row] = found.length;
    batch.field("label").span<std::int64_t>()[row] = found.label;
    batch.counts["tokens"] += found.length;
    batch.counts["bytes"] += found.bytes;
    batch.counts["rows"] += 1;
  }
  return batch;
}

}  // namespace longspan
