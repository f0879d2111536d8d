#include "framework/autograd/source_attention.h"

#include <cmath>

#include "framework/autograd/dtypes.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/head_attention.h"

namespace longspan {

Variable head_attention(const Variable& query,
                        const Variable& key,
                        const Tensor& lengths,
                        const Range& heads,
                        double weight) {
  const Shape &asking = query.shape(), &seen = key.shape();
  HeadAttention call = {
      .query = query.value(),
      .key = key.value(),
      .lengths = lengths,
      .begin = heads.begin,
      .end = heads.end,
      .scale = 1 / std::sqrt(static_cast<double>(asking[3])),
      .weight = weight,
      .each = empty_sums(query.value(), {asking[0], heads.count(), asking[1], seen[1]}),
      .mean = empty_sums(query.value(), {asking[0], asking[1], seen[1]})};
  on(query.value().device(), [&](auto backend) { head_attention(backend, call); });
  Tensor mean = std::exchange(call.mean, {});
  return record(std::move(mean), {query, key}, [call](Gradients& gradients) {
    const HeadAttentionGradient backward = {.forward = call,
                                            .dmean = gradients.output(),
                                            .dscores = call.each.like(MemoryTag::workspace),
                                            .dquery = empty_sums(call.query, call.query.shape()),
                                            .dkey = empty_sums(call.key, call.key.shape())};
    on(call.query.device(), [&](auto backend) { head_attention_backward(backend, backward); });
    if (gradients.wanted(0)) gradients.give(0, in_dtype(backward.dquery, call.query.dtype()));
    if (gradients.wanted(1)) gradients.give(1, in_dtype(backward.dkey, call.key.dtype()));
  });
}

Variable copied_mass(const Variable& attention, const Tensor& source, const Tensor& targets) {
  const Shape shape = attention.shape();
  const CopiedMass call = {.attention = attention.value(),
                           .source = source,
                           .targets = targets,
                           .copied = empty_sums(attention.value(), {shape[0], shape[1]})};
  on(attention.value().device(), [&](auto backend) { copied_mass(backend, call); });
  return record(call.copied, {attention}, [shape, source, targets](Gradients& gradients) {
    const Tensor& dcopied = gradients.output();
    const CopiedMassGradient backward = {.source = source,
                                         .targets = targets,
                                         .dcopied = dcopied,
                                         .dattention = empty_sums(dcopied, shape)};
    on(dcopied.device(), [&](auto backend) { copied_mass_backward(backend, backward); });
    gradients.give(0, backward.dattention);
  });
}

Variable copy_losses(const Variable& generated,
                     const Variable& gate,
                     const Variable& copied,
                     const Tensor& targets) {
  const CopyLosses call = {.generated = generated.value(),
                           .gate = gate.value(),
                           .copied = copied.value(),
                           .targets = targets,
                           .losses = generated.value().like(MemoryTag::activations)};
  on(call.losses.device(), [&](auto backend) { copy_losses(backend, call); });
  // The gradient reads the losses, which others may write over: it has a copy.
  CopyLosses kept = call;
  if (is_recording()) kept.losses = call.losses.clone();
  return record(call.losses, {generated, gate, copied}, [kept](Gradients& gradients) {
    const CopyLossesGradient backward = {.forward = kept,
                                         .dlosses = gradients.output(),
                                         .dgenerated = kept.generated.like(),
                                         .dgate = kept.gate.like(),
                                         .dcopied = kept.copied.like()};
    on(kept.losses.device(), [&](auto backend) { copy_losses_backward(backend, backward); });
    if (gradients.wanted(0)) gradients.give(0, backward.dgenerated);
    if (gradients.wanted(1)) gradients.give(1, backward.dgate);
    if (gradients.wanted(2)) gradients.give(2, backward.dcopied);
  });
}

Variable coverage_losses(const Variable& attention, const Tensor& targets) {
  const Tensor& value = attention.value();
  const Shape& shape = attention.shape();
  const CoverageLosses call = {.attention = value,
                               .targets = targets,
                               .coverage = empty_sums(value, shape),
                               .losses = empty_sums(value, {shape[0], shape[1]})};
  on(value.device(), [&](auto backend) { coverage_losses(backend, call); });
  // `losses` has the right shape for the checks of the backward pass, which does not read it.
  return record(call.losses, {attention}, [call](Gradients& gradients) {
    const CoverageLossesGradient backward = {
        .forward = call, .dlosses = gradients.output(), .dattention = call.attention.like()};
    on(call.attention.device(), [&](auto backend) { coverage_losses_backward(backend, backward); });
    gradients.give(0, backward.dattention);
  });
}

Variable guide_losses(const Variable& attention,
                      const Tensor& guide,
                      GuideLoss kind,
                      double epsilon) {
  const Tensor& value = attention.value();
  const Shape& shape = attention.shape();
  const GuideLosses call = {.attention = value,
                            .guide = guide,
                            .kind = kind,
                            .epsilon = epsilon,
                            .losses = empty_sums(value, {shape[0], shape[1]})};
  on(value.device(), [&](auto backend) { guide_losses(backend, call); });
  return record(call.losses, {attention}, [call](Gradients& gradients) {
    GuideLossesGradient backward = {
        .forward = call, .dlosses = gradients.output(), .dattention = call.attention.like()};
    on(call.attention.device(), [&](auto backend) { guide_losses_backward(backend, backward); });
    gradients.give(0, backward.dattention);
  });
}

Variable shared_gradient(const Variable& x, int ranks) {
  if (ranks == 1) return x;
  return record(x.value(), {x}, [ranks](Gradients& gradients) {
    const Tensor& dy = gradients.output();
    const Tensor part = dy.like();
    on(dy.device(), [&](auto backend) { scale(backend, 1.0 / ranks, dy, part); });
    gradients.give(0, part);
  });
}

}  // namespace longspan
