#include "framework/autograd/cross_attention_losses.h"

#include <cmath>

#include "framework/autograd/dtypes.h"
#include "framework/kernels/dense_attention_weights.h"
#include "framework/kernels/elementwise.h"

namespace longspan {

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
