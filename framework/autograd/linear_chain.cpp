#include "framework/autograd/linear_chain.h"

#include "framework/kernels/elementwise.h"
#include "framework/kernels/linear_chain.h"

namespace longspan {
namespace {

// A weight in the dtype in which scores are added. It is small.
Tensor widened(const Variable& weight, DType dtype) {
  const Tensor& value = weight.value();
  if (value.dtype() == dtype) return value;
  const Tensor result = Tensor::empty(value.shape(), dtype, value.device());
  on(result.device(), [&](auto backend) { scale(backend, 1.0, value, result); });
  return result;
}

LinearChain chain_of(const Tensor& emissions,
                     const LinearChainWeights& weights,
                     const Tensor& lengths) {
  const DType dtype = accumulator_of(emissions.dtype());
  return {.emissions = emissions,
          .lengths = lengths,
          .start = widened(weights.start, dtype),
          .transitions = widened(weights.transitions, dtype),
          .end = widened(weights.end, dtype)};
}

// [extents...] in the dtype in which scores are added.
Tensor wide(const Tensor& emissions, const Shape& shape) {
  return Tensor::empty(shape, accumulator_of(emissions.dtype()), emissions.device());
}

}  // namespace

Variable linear_chain_losses(const Variable& emissions,
                             const LinearChainWeights& weights,
                             const Tensor& tags,
                             const Tensor& lengths) {
  const Tensor& value = emissions.value();
  const std::int64_t rows = value.shape()[0], time = value.shape()[1];
  const LinearChainLosses call = {.chain = chain_of(value, weights, lengths),
                                  .tags = tags,
                                  .losses = wide(value, {rows}),
                                  .log_partition = wide(value, {rows}),
                                  .arrival = wide(value, value.shape()),
                                  .growth = wide(value, {rows, time + 1})};
  on(value.device(), [&](auto backend) { linear_chain_losses(backend, call); });
  LinearChainGradient kept = {.chain = call.chain,
                              .tags = tags,
                              .arrival = call.arrival,
                              .growth = call.growth,
                              .dlosses = {},
                              .demissions = {},
                              .dstart = {},
                              .dtransitions = {},
                              .dend = {}};
  return record(call.losses,
                {emissions, weights.start, weights.transitions, weights.end},
                [kept = std::move(kept)](Gradients& gradients) {
                  LinearChainGradient backward = kept;
                  const auto sums = [&](std::size_t input, const Tensor& weight) {
                    return gradients.wanted(input)
                               ? gradients.target_to_add(input)
                               : Tensor::zeros(weight.shape(), weight.dtype(), weight.device());
                  };
                  backward.dlosses = gradients.output();
                  backward.demissions = kept.chain.emissions.like();
                  backward.dstart = sums(1, kept.chain.start);
                  backward.dtransitions = sums(2, kept.chain.transitions);
                  backward.dend = sums(3, kept.chain.end);
                  on(backward.demissions.device(),
                     [&](auto backend) { linear_chain_backward(backend, backward); });
                  if (gradients.wanted(0)) gradients.give(0, backward.demissions);
                });
}

TagPaths best_tags(const Tensor& emissions,
                   const LinearChainWeights& weights,
                   const Tensor& lengths) {
  const std::int64_t rows = emissions.shape()[0], time = emissions.shape()[1];
  const LinearChainPath path = {.chain = chain_of(emissions, weights, lengths),
                                .tags = Tensor::empty({rows, time}, DType::i64, emissions.device()),
                                .scores = wide(emissions, {rows})};
  on(emissions.device(), [&](auto backend) { linear_chain_path(backend, path); });
  return {path.tags, path.scores};
}

}  // namespace longspan
