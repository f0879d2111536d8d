#include "framework/autograd/reversible.h"

#include "framework/autograd/recompute.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

void add_to(const Tensor& stream, double factor, const Tensor& change) {
  on(stream.device(), [&](auto backend) { accumulate(backend, factor, change, stream); });
}

double squared_norm(const Tensor& x) {
  const Tensor total = Tensor::zeros({1}, DType::f64, x.device(), MemoryTag::workspace);
  on(x.device(), [&](auto backend) { sum_of_squares(backend, {x}, total); });
  return total.item();
}

double squared_difference(const Tensor& rebuilt, const Tensor& truth) {
  const Tensor difference = rebuilt.clone(MemoryTag::workspace);
  add_to(difference, -1, truth);
  return squared_norm(difference);
}

}  // namespace

Variable reversible_add(Variable&& a,
                        const Variable& b,
                        const ReversibleFunction& function,
                        const std::shared_ptr<ReversibleStreams>& streams,
                        const std::vector<Variable>& extra) {
  require(a.shape() == b.shape() && a.value().dtype() == b.value().dtype(),
          "reversible streams: expected equal shapes and dtypes, found {} {} and {} {}",
          name_of(a.value().dtype()),
          a.shape(),
          name_of(b.value().dtype()),
          b.shape());
  std::vector<Tensor> kept;
  std::vector<Variable> constants;
  for (const Variable& variable : extra) {
    kept.push_back(variable.value());
    constants.push_back(variable.detach());
  }
  const NoGradResult change = run_no_grad([&] { return function(b.detach(), constants); });
  streams->read = {};
  streams->written = {};
  std::vector<Variable> inputs = {std::move(a), b};
  inputs.insert(inputs.end(), extra.begin(), extra.end());
  inputs.insert(inputs.end(), change.leaves.begin(), change.leaves.end());
  Tensor c = inputs[0].value();
  const Tensor truth = streams->measure ? c : Tensor();
  // `inputs[0]` and `c` are owners.
  if (!c.has_use_count(2)) c = c.clone();
  add_to(c, 1, change.value);
  if (!is_recording()) return Variable(c);
  streams->read = b.value();
  streams->written = c;
  const std::int64_t place = ++streams->sublayers;
  return record(std::move(c), inputs, [=](BackwardContext& gradients) {
    require(streams->sublayers-- == place,
            "reversible stack: backward pass of sublayer {} out of order",
            place);
    const Tensor dc = gradients.release_output();
    Tensor stream = std::exchange(streams->read, {});
    const Variable read = gradients.needs_gradient(1) ? Variable::leaf(std::move(stream))
                                                      : Variable(std::move(stream));
    Tensor rebuilt = std::exchange(streams->written, {});
    constexpr std::size_t streams_read = 2;
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < kept.size(); ++i)
      variables.push_back(gradients.needs_gradient(streams_read + i) ? Variable::leaf(kept[i])
                                                                     : Variable(kept[i]));
    run_nested_backward(
        [&] {
          Variable again = function(read, variables);
          if (!rebuilt.is_unique()) rebuilt = rebuilt.clone();
          add_to(rebuilt, -1, again.value());
          return again;
        },
        dc);
    if (truth.defined())
      streams->measure(place, squared_difference(rebuilt, truth), squared_norm(truth));
    streams->read = std::move(rebuilt);
    streams->written = read.value();
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (gradients.needs_gradient(streams_read + i) && variables[i].gradient().defined())
        gradients.set(streams_read + i, variables[i].gradient());
    if (gradients.needs_gradient(1) && read.gradient().defined()) gradients.set(1, read.gradient());
    if (gradients.needs_gradient(0)) gradients.set(0, dc);
  });
}

}  // namespace longspan
