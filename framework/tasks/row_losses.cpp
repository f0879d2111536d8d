#include "framework/tasks/row_losses.h"

#include "framework/core/error.h"
#include "framework/kernels/wide_on_host.h"

namespace longspan {

std::vector<double> row_losses(const Losses& losses) {
  const Tensor here = to_host_f64(losses.terms.front().values.value());
  const auto numbers = here.span<double>();
  return {numbers.begin(), numbers.end()};
}

void check_segment(const Model& model, std::int64_t tokens) {
  const std::int64_t longest = model.body().max_segment_length();
  if (longest > 0 && tokens > longest)
    throw ConfigurationError("expected at most {} tokens per pass, found {}", longest, tokens);
}

}  // namespace longspan
