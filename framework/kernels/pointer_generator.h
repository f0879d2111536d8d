// What is made of a decoder's attention to its source, `attention` [batch, time, positions] in f32
// or f64: copying of source words, coverage, and losses by a guide. Everything else is of the same
// dtype but ids, and is written.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// copied[b, t] = sum over s with source[b, s] = targets[b, t] of attention[b, t, s]: the
// probability that copying gives the target. source: [batch, positions] i64; targets: [batch, time]
// i64; copied: [batch, time].
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
// 2017, equation 9), 0 where targets[i] is negative. All of n elements. Infinity, without a
// gradient, where neither gives the target.
struct PointerGeneratorLosses {
  Tensor generated;  // -log of what the vocabulary's softmax gives the target; may be infinity
  Tensor gate;
  Tensor copied;
  Tensor targets;
  Tensor losses;
};
void pointer_generator_losses(Cpu, const PointerGeneratorLosses&);
void pointer_generator_losses(Cuda, const PointerGeneratorLosses&);

struct CopyLossesGradient {
  PointerGeneratorLosses forward;  // with its losses
  Tensor dlosses;
  Tensor dgenerated;
  Tensor dgate;
  Tensor dcopied;
};
void copy_losses_backward(Cpu, const CopyLossesGradient&);
void copy_losses_backward(Cuda, const CopyLossesGradient&);

// losses[b, t] = sum over s of min(attention[b, t, s], coverage[b, t, s]), where coverage is the
// sum of the attention of earlier t (See et al. 2017, equations 10 and 12); 0 where targets[b, t]
// is negative. targets: [batch, time] i64; coverage: [batch, time, positions]; losses: [batch,
// time]. Of equal ones the gradient is the attention's.
struct CoverageLosses {
  Tensor attention;
  Tensor targets;
  Tensor coverage;
  Tensor losses;
};
void coverage_losses(Cpu, const CoverageLosses&);
void coverage_losses(Cuda, const CoverageLosses&);

struct CoverageLossesGradient {
  CoverageLosses forward;  // with its coverage
  Tensor dlosses;
  Tensor dattention;
};
void coverage_losses_backward(Cpu, const CoverageLossesGradient&);
void coverage_losses_backward(Cuda, const CoverageLossesGradient&);

// How attention a is judged by a guide w.
enum class GuidedAttentionLoss : std::uint8_t {
  cross_entropy,  // -w log(a + epsilon), nothing where w is 0
  product,        // w a
  square          // (a - w)^2 / 2
};

// losses[b, t] = the sum over s of what the kind says of attention[b, t, s] and guide[b, t, s].
// guide: [batch, time, positions]; losses: [batch, time].
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
  GuidedAttentionLosses forward;  // losses are not read
  Tensor dlosses;
  Tensor dattention;
};
void guide_losses_backward(Cpu, const GuideLossesGradient&);
void guide_losses_backward(Cuda, const GuideLossesGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const CopyProbability&);
void check(const CopiedMassGradient&);
void check(const PointerGeneratorLosses&);
void check(const CopyLossesGradient&);
void check(const CoverageLosses&);
void check(const CoverageLossesGradient&);
void check(const GuidedAttentionLosses&);
void check(const GuideLossesGradient&);

}  // namespace longspan
