#include "framework/optim/global_norms.h"

#include "framework/kernels/elementwise.h"

namespace longspan {

void sum_over_elements(const Parameters& parameters, std::span<double> values) {
  const Tensor sums = Tensor::from<double>(std::span<const double>(values),
                                           {std::ssize(values)},
                                           parameters.device().host(),
                                           MemoryTag::workspace);
  parameters.mesh().world.all_reduce(sums, Reduction::sum);
  const auto found = sums.span<double>();
  std::copy(found.begin(), found.end(), values.begin());
}

std::vector<double> squared_norms(const Parameters& parameters,
                                  const std::function<Tensor(const Parameter&)>& own) {
  const auto& all = parameters.trained();
  const Tensor here =
      Tensor::zeros({std::ssize(all)}, DType::f64, parameters.device(), MemoryTag::workspace);
  for (std::int64_t i = 0; i < std::ssize(all); ++i) {
    const Parameter& parameter = *all[static_cast<std::size_t>(i)];
    if (!parameters.is_primary_owner(parameter) || parameter.shard_begin == parameter.shard_end)
      continue;
    on(parameters.device(),
       [&](auto backend) { sum_of_squares(backend, {own(parameter)}, here.slice(i, i + 1)); });
  }
  const Tensor found = here.to_host();
  std::vector<double> squares(found.span<double>().begin(), found.span<double>().end());
  sum_over_elements(parameters, squares);
  return squares;
}

std::vector<double> squared_norms_of_weights(const Parameters& parameters) {
  return squared_norms(parameters, [](const Parameter& each) { return each.shard_master; });
}

std::vector<double> squared_norms_of_gradients(const Parameters& parameters) {
  return squared_norms(parameters, [](const Parameter& each) { return each.shard_gradient; });
}

}  // namespace longspan
