// Functions of a decoder's cross-attention: copy probabilities, coverage and guided losses.
// `attention` is [batch, time, positions] in f32 or f64. Unless stated otherwise, every tensor
// except ids has the same dtype and outputs are overwritten.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// copied[b, t] = sum over s with source[b, s] = targets[b, t] of attention[b, t, s]: the
// probability of copying the target. source: [batch, positions] i64; targets: [batch, time] i64;
// copied: [batch, time].
struct CopyProbability {
  Tensor attention;
  Tensor source;
  Tensor targets;
  Tensor copied;
};
void copy_probability(Cpu, const CopyProbability&);
void copy_probability(Cuda, const CopyProbability&);

struct CopiedMassGradient {
  Tensor source;
  Tensor targets;
  Tensor dcopied;
  Tensor dattention;
};
void copied_mass_backward(Cpu, const CopiedMassGradient&);
void copied_mass_backward(Cuda, const CopiedMassGradient&);

// losses[i] = -log(g e^-generated[i] + (1 - g) copied[i]) with g = logistic(gate[i]) (See et al.
// 2017, equation 9), 0 where targets[i] is negative. All tensors have n elements. The loss is
// infinite, without a gradient, if neither term is positive.
struct PointerGeneratorLosses {
  Tensor generated;  // -log softmax probability of the target over the vocabulary; may be infinite
  Tensor gate;
  Tensor copied;
  Tensor targets;
  Tensor losses;
};
void pointer_generator_losses(Cpu, const PointerGeneratorLosses&);
void pointer_generator_losses(Cuda, const PointerGeneratorLosses&);

struct CopyLossesGradient {
  PointerGeneratorLosses forward;  // including its losses
  Tensor dlosses;
  Tensor dgenerated;
  Tensor dgate;
  Tensor dcopied;
};
void copy_losses_backward(Cpu, const CopyLossesGradient&);
void copy_losses_backward(Cuda, const CopyLossesGradient&);

// losses[b, t] = sum over s of min(attention[b, t, s], coverage[b, t, s]) (See et al. 2017,
// equations 10 and 12). coverage is the sum of the attention of earlier t. The loss is 0 where
// targets[b, t] is negative. targets: [batch, time] i64; coverage: [batch, time, positions];
// losses: [batch, time]. On ties, the gradient flows to the attention.
struct CoverageLosses {
  Tensor attention;
  Tensor targets;
  Tensor coverage;
  Tensor losses;
};
void coverage_losses(Cpu, const CoverageLosses&);
void coverage_losses(Cuda, const CoverageLosses&);

struct CoverageLossesGradient {
  CoverageLosses forward;  // including its coverage
  Tensor dlosses;
  Tensor dattention;
};
void coverage_losses_backward(Cpu, const CoverageLossesGradient&);
void coverage_losses_backward(Cuda, const CoverageLossesGradient&);

// Loss of an attention weight a under a guide w.
enum class GuidedAttentionLoss : std::uint8_t {
  cross_entropy,  // -w log(a + epsilon), 0 if w is 0
  product,        // w a
  square          // (a - w)^2 / 2
};

// losses[b, t] = the sum over s of the chosen loss of attention[b, t, s] and guide[b, t, s]. guide:
// [batch, time, positions]; losses: [batch, time].
struct GuidedAttentionLosses {
  Tensor attention;
  Tensor guide;
  GuidedAttentionLoss kind = GuidedAttentionLoss::cross_entropy;
  double epsilon = 0;
  Tensor losses;
};
void guided_attention_losses(Cpu, const GuidedAttentionLosses&);
void guided_attention_losses(Cuda, const GuidedAttentionLosses&);

struct GuideLossesGradient {
  GuidedAttentionLosses forward;  // its losses are not read
  Tensor dlosses;
  Tensor dattention;
};
void guide_losses_backward(Cpu, const GuideLossesGradient&);
void guide_losses_backward(Cuda, const GuideLossesGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const CopyProbability&);
void check(const CopiedMassGradient&);
void check(const PointerGeneratorLosses&);
void check(const CopyLossesGradient&);
void check(const CoverageLosses&);
void check(const CoverageLossesGradient&);
void check(const GuidedAttentionLosses&);
void check(const GuideLossesGradient&);

}  // namespace longspan
