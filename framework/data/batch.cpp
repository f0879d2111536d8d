#include "framework/data/batch.h"

#include "framework/core/error.h"

namespace longspan {

const Tensor& field_of(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  require(found != fields.end(), "the batch has no field `{}`", name);
  return found->second;
}

Fields rows_of(const Fields& fields, std::int64_t begin, std::int64_t end) {
  Fields result;
  for (const auto& [name, tensor] : fields) result.emplace(name, tensor.slice(begin, end));
  return result;
}

std::int64_t Batch::rows() const { return fields.empty() ? 0 : fields.begin()->second.shape()[0]; }

std::int64_t Batch::count(std::string_view name) const {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

StreamRange streams_of_rank(std::int64_t streams, int rank, int ranks, const char* key) {
  if (streams < 1 || streams % ranks != 0)
    throw ConfigurationError(
        "{}: expected a multiple of the {} data ranks, found {}", key, ranks, streams);
  const std::int64_t each = streams / ranks;
  return {rank * each, (rank + 1) * each};
}

}  // namespace longspan
