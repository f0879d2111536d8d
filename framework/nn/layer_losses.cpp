#include "framework/nn/layer_losses.h"

#include "framework/kernels/elementwise.h"

namespace longspan {

void LayerLossCollector::add(const std::string& name, double weight, const Tensor& total) {
  const auto [sum, fresh] = sums_.try_emplace(name, Sum{total, weight});
  if (fresh) return;
  require(sum->second.weight == weight, "intermediate loss \"{}\" has two weights", name);
  on(total.device(), [&](auto backend) { accumulate(backend, 1.0, total, sum->second.total); });
}

Variable collect_layer_loss(const Variable& x,
                            const std::string& name,
                            double weight,
                            double factor,
                            const ForwardContext& pass) {
  if (!pass.layer_losses) return x;
  const Tensor& value = x.value();
  // A recomputation finds the cached decision and adds nothing.
  pass.child(name).decide([&] {
    const Tensor total = Tensor::empty({1}, accumulator_of(value.dtype()), value.device());
    on(value.device(), [&](auto backend) { sum(backend, value, factor, total); });
    pass.layer_losses->add(name, weight, total);
    return total;
  });
  const double by = weight * factor * pass.layer_losses->share();
  return record(
      value,
      {x},
      [by, seed = pass.layer_losses->seed(), dtype = value.dtype()](BackwardContext& gradients) {
        const Tensor& dy = gradients.output();
        const Tensor dx = Tensor::empty(dy.shape(), dtype, dy.device());
        on(dx.device(), [&](auto backend) {
          fill(backend, by, seed, dx);
          accumulate(backend, 1.0, dy, dx);
        });
        gradients.set(0, dx);
      });
}

}  // namespace longspan
