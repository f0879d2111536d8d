#include "framework/autograd/crf.h"

#include "framework/autograd/dtypes.h"
#include "framework/kernels/crf.h"

namespace longspan {
namespace {

Crf chain_of(const Tensor& emissions, const CrfWeights& weights, const Tensor& lengths) {
  const DType dtype = accumulator_of(emissions.dtype());
  return {.emissions = emissions,
          .lengths = lengths,
          .start = to_dtype(weights.start.value(), dtype),
          .transitions = to_dtype(weights.transitions.value(), dtype),
          .end = to_dtype(weights.end.value(), dtype)};
}

}  // namespace

Variable crf_losses(const Variable& emissions,
                    const CrfWeights& weights,
                    const Tensor& tags,
                    const Tensor& lengths) {
  const Tensor& value = emissions.value();
  const std::int64_t rows = value.shape()[0], time = value.shape()[1];
  const CrfLosses call = {.chain = chain_of(value, weights, lengths),
                          .tags = tags,
                          .losses = empty_accumulator(value, {rows}),
                          .log_partition = empty_accumulator(value, {rows}),
                          .arrival = empty_accumulator(value, value.shape()),
                          .growth = empty_accumulator(value, {rows, time + 1})};
  on(value.device(), [&](auto backend) { crf_losses(backend, call); });
  CrfGradient kept = {.chain = call.chain,
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
                [kept = std::move(kept)](BackwardContext& gradients) {
                  CrfGradient backward = kept;
                  const auto sums = [&](std::size_t input, const Tensor& weight) {
                    return gradients.needs_gradient(input)
                               ? gradients.accumulate_target(input)
                               : Tensor::zeros(weight.shape(), weight.dtype(), weight.device());
                  };
                  backward.dlosses = gradients.output();
                  backward.demissions = kept.chain.emissions.empty_like();
                  backward.dstart = sums(1, kept.chain.start);
                  backward.dtransitions = sums(2, kept.chain.transitions);
                  backward.dend = sums(3, kept.chain.end);
                  on(backward.demissions.device(),
                     [&](auto backend) { crf_backward(backend, backward); });
                  if (gradients.needs_gradient(0)) gradients.set(0, backward.demissions);
                });
}

ViterbiPaths viterbi_decode(const Tensor& emissions,
                            const CrfWeights& weights,
                            const Tensor& lengths) {
  const std::int64_t rows = emissions.shape()[0], time = emissions.shape()[1];
  const CrfViterbi path = {.chain = chain_of(emissions, weights, lengths),
                           .tags = Tensor::empty({rows, time}, DType::i64, emissions.device()),
                           .scores = empty_accumulator(emissions, {rows})};
  on(emissions.device(), [&](auto backend) { crf_viterbi(backend, path); });
  return {path.tags, path.scores};
}

}  // namespace longspan
