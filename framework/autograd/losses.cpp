#include "framework/autograd/losses.h"

#include <cmath>

#include "framework/autograd/dtypes.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/crf.h"
#include "framework/kernels/dense_attention_weights.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/logistic_mixture.h"
#include "framework/kernels/sequence_losses.h"

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

// Records the gradient dx[r, i] = dy[r] slopes[r, i].
Variable record_rows(const Tensor& y, const Variable& x, const Tensor& slopes) {
  return record(y, {x}, [slopes, shape = x.shape()](BackwardContext& gradients) {
    const Tensor dx = slopes.empty_like();
    on(slopes.device(), [&](auto backend) {
      weighted_row_sums_backward(backend, {.weight = slopes, .dy = gradients.output(), .dx = dx});
    });
    gradients.set(0, dx.reshape(shape));
  });
}

}  // namespace

Variable weighted_row_sums(const Variable& x, const Tensor& weights) {
  const Tensor y = Tensor::empty({weights.shape()[0]}, weights.dtype(), weights.device());
  on(y.device(), [&](auto backend) {
    weighted_row_sums(backend,
                      {.x = x.value().reshape(weights.shape()), .weight = weights, .y = y});
  });
  return record_rows(y, x, weights);
}

Variable expected_costs(const Variable& log_probabilities,
                        const CandidateCosts& candidates,
                        double alpha) {
  const Tensor& cost = candidates.cost;
  const Tensor y = Tensor::empty({cost.shape()[0]}, cost.dtype(), cost.device());
  const Tensor slope = cost.empty_like();
  on(cost.device(), [&](auto backend) {
    expected_costs(backend,
                   {.log_probability = log_probabilities.value().reshape(cost.shape()),
                    .cost = cost,
                    .present = candidates.present,
                    .alpha = alpha,
                    .y = y,
                    .slope = slope});
  });
  return record_rows(y, log_probabilities, slope);
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

Variable dense_attention_weights(const Variable& query,
                                 const Variable& key,
                                 const Tensor& lengths,
                                 const Range& heads,
                                 double weight) {
  const Shape &asking = query.shape(), &seen = key.shape();
  DenseAttentionWeights call = {
      .query = query.value(),
      .key = key.value(),
      .lengths = lengths,
      .begin = heads.begin,
      .end = heads.end,
      .scale = 1 / std::sqrt(static_cast<double>(asking[3])),
      .weight = weight,
      .each = empty_accumulator(query.value(), {asking[0], heads.count(), asking[1], seen[1]}),
      .mean = empty_accumulator(query.value(), {asking[0], asking[1], seen[1]})};
  on(query.value().device(), [&](auto backend) { dense_attention_weights(backend, call); });
  Tensor mean = std::exchange(call.mean, {});
  return record(std::move(mean), {query, key}, [call](BackwardContext& gradients) {
    const HeadAttentionGradient backward = {
        .forward = call,
        .dmean = gradients.output(),
        .dscores = call.each.empty_like(MemoryTag::workspace),
        .dquery = empty_accumulator(call.query, call.query.shape()),
        .dkey = empty_accumulator(call.key, call.key.shape())};
    on(call.query.device(), [&](auto backend) { head_attention_backward(backend, backward); });
    if (gradients.needs_gradient(0))
      gradients.set(0, to_dtype(backward.dquery, call.query.dtype()));
    if (gradients.needs_gradient(1)) gradients.set(1, to_dtype(backward.dkey, call.key.dtype()));
  });
}

Variable copy_probability(const Variable& attention, const Tensor& source, const Tensor& targets) {
  const Shape shape = attention.shape();
  const CopyProbability call = {
      .attention = attention.value(),
      .source = source,
      .targets = targets,
      .copied = empty_accumulator(attention.value(), {shape[0], shape[1]})};
  on(attention.value().device(), [&](auto backend) { copy_probability(backend, call); });
  return record(call.copied, {attention}, [shape, source, targets](BackwardContext& gradients) {
    const Tensor& dcopied = gradients.output();
    const CopiedMassGradient backward = {.source = source,
                                         .targets = targets,
                                         .dcopied = dcopied,
                                         .dattention = empty_accumulator(dcopied, shape)};
    on(dcopied.device(), [&](auto backend) { copied_mass_backward(backend, backward); });
    gradients.set(0, backward.dattention);
  });
}

Variable pointer_generator_losses(const Variable& generated,
                                  const Variable& gate,
                                  const Variable& copied,
                                  const Tensor& targets) {
  const PointerGeneratorLosses call = {
      .generated = generated.value(),
      .gate = gate.value(),
      .copied = copied.value(),
      .targets = targets,
      .losses = generated.value().empty_like(MemoryTag::activations)};
  on(call.losses.device(), [&](auto backend) { pointer_generator_losses(backend, call); });
  // The gradient reads the losses, which later ops may overwrite.
  PointerGeneratorLosses kept = call;
  if (is_recording()) kept.losses = call.losses.clone();
  return record(call.losses, {generated, gate, copied}, [kept](BackwardContext& gradients) {
    const CopyLossesGradient backward = {.forward = kept,
                                         .dlosses = gradients.output(),
                                         .dgenerated = kept.generated.empty_like(),
                                         .dgate = kept.gate.empty_like(),
                                         .dcopied = kept.copied.empty_like()};
    on(kept.losses.device(), [&](auto backend) { copy_losses_backward(backend, backward); });
    if (gradients.needs_gradient(0)) gradients.set(0, backward.dgenerated);
    if (gradients.needs_gradient(1)) gradients.set(1, backward.dgate);
    if (gradients.needs_gradient(2)) gradients.set(2, backward.dcopied);
  });
}

Variable coverage_losses(const Variable& attention, const Tensor& targets) {
  const Tensor& value = attention.value();
  const Shape& shape = attention.shape();
  const CoverageLosses call = {.attention = value,
                               .targets = targets,
                               .coverage = empty_accumulator(value, shape),
                               .losses = empty_accumulator(value, {shape[0], shape[1]})};
  on(value.device(), [&](auto backend) { coverage_losses(backend, call); });
  // The backward pass does not read `losses`, but its checks require the shape.
  return record(call.losses, {attention}, [call](BackwardContext& gradients) {
    const CoverageLossesGradient backward = {
        .forward = call, .dlosses = gradients.output(), .dattention = call.attention.empty_like()};
    on(call.attention.device(), [&](auto backend) { coverage_losses_backward(backend, backward); });
    gradients.set(0, backward.dattention);
  });
}

Variable guided_attention_losses(const Variable& attention,
                                 const Tensor& guide,
                                 GuidedAttentionLoss kind,
                                 double epsilon) {
  const Tensor& value = attention.value();
  const Shape& shape = attention.shape();
  const GuidedAttentionLosses call = {.attention = value,
                                      .guide = guide,
                                      .kind = kind,
                                      .epsilon = epsilon,
                                      .losses = empty_accumulator(value, {shape[0], shape[1]})};
  on(value.device(), [&](auto backend) { guided_attention_losses(backend, call); });
  return record(call.losses, {attention}, [call](BackwardContext& gradients) {
    GuideLossesGradient backward = {
        .forward = call, .dlosses = gradients.output(), .dattention = call.attention.empty_like()};
    on(call.attention.device(), [&](auto backend) { guide_losses_backward(backend, backward); });
    gradients.set(0, backward.dattention);
  });
}

Variable shared_gradient(const Variable& x, int ranks) {
  if (ranks == 1) return x;
  return record(x.value(), {x}, [ranks](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor part = dy.empty_like();
    on(dy.device(), [&](auto backend) { scale(backend, 1.0 / ranks, dy, part); });
    gradients.set(0, part);
  });
}

}  // namespace longspan
