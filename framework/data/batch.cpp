#include "framework/data/batch.h"

#include "framework/core/error.h"

namespace longspan {

StreamRange streams_of_rank(std::int64_t streams, int rank, int ranks, const char* key) {
  if (streams < 1 || streams % ranks != 0)
    throw ConfigurationError(
        "{} = {}: the number of streams must be a multiple of the {} data ranks",
        key,
        streams,
        ranks);
  const std::int64_t each = streams / ranks;
  return {rank * each, (rank + 1) * each};
}

}  // namespace longspan
