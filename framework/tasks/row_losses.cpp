#include "framework/tasks/row_losses.h"

#include "framework/core/error.h"
#include "framework/kernels/elementwise.h"

namespace longspan {

std::vector<double> row_losses(const Losses& losses) {
  const Tensor values = losses.terms.front().values.value();
  const Tensor wide =
      Tensor::empty(values.shape(), DType::f64, values.device(), MemoryTag::workspace);
  on(values.device(), [&](auto backend) { scale(backend, 1, values, wide); });
  const Tensor here = wide.to_host();
  const auto numbers = here.span<double>();
  return {numbers.begin(), numbers.end()};
}

void check_segment(const Model& model, std::int64_t tokens) {
  const std::int64_t longest = model.body().longest_segment();
  if (longest > 0 && tokens > longest)
    throw ConfigurationError(
        "the model reads at most {} tokens in one pass, evaluation asks for {}", longest, tokens);
}

}  // namespace longspan
