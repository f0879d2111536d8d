#include "framework/autograd/losses.h"

#include "framework/autograd/dtypes.h"
#include "framework/kernels/crf.h"
#include "framework/kernels/logistic_mixture.h"

namespace longspan {

Variable logistic_mixture_losses(const Variable& parameters,
                                 const Tensor& values,
                                 std::int64_t mixtures) {
  const Shape& shape = parameters.shape();
  const Tensor numbers = parameters.value().reshape({shape.rows(), shape.width()});
  const Tensor pixels = values.reshape({shape.rows(), values.shape().width()});
  const Tensor losses = empty_accumulator(numbers, {shape.rows()});
  on(numbers.device(), [&](auto backend) {
    logistic_mixture(
        backend, {.parameters = numbers, .values = pixels, .mixtures = mixtures, .losses = losses});
  });
  return record(
      losses, {parameters}, [numbers, pixels, mixtures, shape](BackwardContext& gradients) {
        const Tensor dparameters = numbers.empty_like();
        on(numbers.device(), [&](auto backend) {
          logistic_mixture_backward(backend,
                                    {.parameters = numbers,
                                     .values = pixels,
                                     .mixtures = mixtures,
                                     .dlosses = gradients.output(),
                                     .dparameters = dparameters});
        });
        gradients.set(0, dparameters.reshape(shape));
      });
}

Variable policy_losses(PolicyLossKind function,
                       const Variable& x,
                       const PolicyTargets& results,
                       double clip) {
  const Shape& shape = x.shape();
  const Shape rows = {shape.rows()};
  const auto by_row = [&](const Tensor& found) {
    return found.defined() ? found.reshape(rows) : Tensor();
  };
  PolicyLoss score = {.function = function,
                      .x = x.value().reshape({shape.rows(), shape.width()}),
                      .action = by_row(results.action),
                      .before = by_row(results.before),
                      .advantage = by_row(results.advantage),
                      .wanted = by_row(results.wanted),
                      .clip = clip};
  const Tensor y = Tensor::empty(rows, score.x.dtype(), score.x.device());
  score.y = y;
  on(y.device(), [&](auto backend) { policy_loss(backend, score); });
  score.y = Tensor();
  return record(y, {x}, [score, shape](BackwardContext& gradients) {
    const PolicyScoreGradient gradient = {
        .forward = score, .dy = gradients.output(), .dx = score.x.empty_like()};
    on(score.x.device(), [&](auto backend) { policy_score_backward(backend, gradient); });
    gradients.set(0, gradient.dx.reshape(shape));
  });
}

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
