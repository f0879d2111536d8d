// Cross-attention weights of a decoder, for losses and copying.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"

namespace longspan {

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

}  // namespace longspan
