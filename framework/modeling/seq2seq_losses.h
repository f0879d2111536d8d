// Pointer-generator logits, guided attention, and the cross-attention weights that both read.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/modeling/model_input.h"
#include "framework/nn/parameters.h"

namespace longspan {

// logits: [rows, time, this rank's shard], or with `only_last` [rows, 1, this rank's shard] of the
// last position. gate: [rows, time, 1]. attention: [rows, time, columns], whose first columns are
// those of `source` [rows, positions] i64.
struct PointerGeneratorLogits {
  Tensor logits;
  Tensor gate;
  Tensor attention;
  Tensor source;
  bool only_last = false;
};

// Collective over the tensor ranks. Returns log(g softmax(logits) + (1 - g) copied) with g =
// sigmoid(gate) (See et al. 2017). The result has the shape of the logits, in f64 on the host.
// `copied` of an id is the total attention to its source positions. -infinity where both are 0.
// Records no gradient.
Tensor pointer_generator_logits(const PointerGeneratorLogits& of,
                                const ShardRange& part,
                                const Communicator& tensor);

// Target of the guided attention loss in training.
enum class GuidedAttentionType : std::uint8_t {
  none,
  diagonal,   // positions correspond proportionally (Tachibana et al. 2018)
  monotonic,  // attention moves forward only (Raffel et al. 2017)
  alignments  // the data give word alignments of source and target
};

struct CrossAttentionLossOptions {
  bool copies = false;  // the output head can copy source ids (See et al. 2017)
  double coverage = 0;  // weight of the coverage loss
  GuidedAttentionType guide = GuidedAttentionType::none;
  double guide_weight = 0.1;
  double guide_width = 0.2;  // of the diagonal, as a fraction of the sequence length

  bool is_requested() const { return copies || coverage > 0 || guide != GuidedAttentionType::none; }
};

// Output of a backbone for a forward pass.
struct CrossAttentionWeights {
  Variable attention = {};  // [rows, positions inside split regions, all source positions]
  Variable embedding = {};  // decoder input embeddings of the positions outside split regions,
                            // [rows, time, width]; for copying
};

// Returns the attention cost 1 - exp(-(s / S - t / T)^2 / (2 width^2)) (Tachibana et al. 2018,
// equation 12). S and T are the source and target lengths of each row. Fields: `source`,
// `source_length`, `length`.
//
// Result: [rows, positions, source positions] f64 on the host, for `positions` of the target; 0
// where either position is padding.
Tensor diagonal_guide(const Fields& fields, const Ranges& positions, double width);

// Returns target attention weights: uniform over the source positions linked to a target position,
// with sum 1. Fields: `source`, `links` (heads.h). Shape as above.
Tensor alignment_guide(const Fields& fields, const Ranges& positions);

// Returns the monotonic expectation of attention [rows, time, source positions] over all target
// positions (kernels/monotonic_attention.h), at `positions`. A constant on the device of
// `attention`. Fields: `source_length`, `length`.
Tensor monotonic_guide(const Fields& fields, const Ranges& positions, const Tensor& attention);

}  // namespace longspan
