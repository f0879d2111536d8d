#include "framework/autograd/linear_chain.h"

#include "framework/autograd/dtypes.h"
#include "framework/kernels/linear_chain.h"

namespace longspan {
namespace {

LinearChain chain_of(const Tensor& emissions,
                     const LinearChainWeights& weights,
                     const Tensor& lengths) {
  const DType dtype = accumulator_of(emissions.dtype());
  return {.emissions = emissions,
          .lengths = lengths,
          .start = in_dtype(weights.start.value(), dtype),
          .transitions = in_dtype(weights.transitions.value(), dtype),
          .end = in_dtype(weights.end.value(), dtype)};
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
                                  .losses = empty_sums(value, {rows}),
                                  .log_partition = empty_sums(value, {rows}),
                                  .arrival = empty_sums(value, value.shape()),
                                  .growth = empty_sums(value, {rows, time + 1})};
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
                                .scores = empty_sums(emissions, {rows})};
  on(emissions.device(), [&](auto backend) { linear_chain_path(backend, path); });
  return {path.tags, path.scores};
}

}  // namespace longspan
