// What is made of a decoder's attention to its source besides the decoder's own output.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"

namespace longspan {

// Which guide attention is to follow in training.
enum class GuidedAttentionType : std::uint8_t {
  none,
  diagonal,   // positions stand at like parts of both sequences (Tachibana et al. 2018)
  monotonic,  // what is looked at moves on, never back (Raffel et al. 2017)
  alignments  // the data say which target word belongs to which source word
};

struct CrossAttentionLossOptions {
  bool copies = false;  // the readout may copy ids of the source (See et al. 2017)
  double coverage = 0;  // the weight of the loss of what is looked at again
  GuidedAttentionType guide = GuidedAttentionType::none;
  double guide_weight = 0.1;
  double guide_width = 0.2;  // of the diagonal, as a part of a sequence

  bool is_wanted() const { return copies || coverage > 0 || guide != GuidedAttentionType::none; }
};

// What a body shows of it in a pass.
struct CrossAttentionWeights {
  Variable attention = {};  // [rows, positions inside split regions, all positions of the source]
  Variable embedding = {};  // of what the positions outside read, [rows, time, width]; for copying
};

}  // namespace longspan
