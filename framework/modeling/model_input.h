// What a model reads in one pass.
#pragma once

#include <vector>

#include "framework/data/batch.h"
#include "framework/data/recurrent_state.h"
#include "framework/nn/encoder_output.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

struct ModelInput {
  Fields fields = {};  // whole on every rank that shares their rows
  RecurrentState carried = {};
  // The longest memory to keep afterwards; evaluation may use a longer one than training.
  std::int64_t longest_memory = 0;
  // So many positions more, which a segment that is read in several passes is to see.
  std::int64_t extra_context = 0;
  bool only_last = false;  // of the scores: those of the last position, without gradient
  // [rows, time, width] on the device, in the dtype of computing, of all positions: scaled
  // embeddings, without gradient, of what is read where `tokens` is -1; zeros elsewhere. Undefined:
  // there is none.
  Tensor soft_embeddings = {};
  // What the body showed as States::sides in a pass over the same sources: read in their place.
  std::vector<EncoderOutput> encoder_outputs = {};

  std::int64_t rows() const { return fields.begin()->second.shape()[0]; }
  // The field whose ids stand at the positions that are read.
  std::string_view ids() const { return fields.contains("pixels") ? "pixels" : "tokens"; }
  std::int64_t time() const { return field_of(fields, ids()).shape()[1]; }
};

// The columns of a tensor [rows, time] for the host, or of a field, that this rank has inside
// split regions, on the device.
Tensor columns_of(const Tensor& whole, const SequenceShard& time, const Device& device);
Tensor columns_of(const ModelInput& reading,
                  std::string_view field,
                  const SequenceShard& time,
                  const Device& device);

}  // namespace longspan
