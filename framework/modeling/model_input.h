// The input of a forward pass.
#pragma once

#include <vector>

#include "framework/data/batch.h"
#include "framework/nn/attention/attention_op.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

struct ModelInput {
  Fields fields = {};  // unsharded on every rank that shares the rows
  RecurrentState carried = {};
  // The longest memory to retain after the pass; evaluation may use a longer one than training.
  std::int64_t max_mem_len = 0;
  // Additional positions that are visible to a segment read in several passes.
  std::int64_t extra_context = 0;
  bool only_last = false;  // compute scores of the last position only, without gradient
  // [rows, time, width] on the device, in the compute dtype, for all positions. Scaled embeddings,
  // without gradient, where `tokens` is -1; zeros elsewhere. Undefined: none.
  Tensor soft_embeddings = {};
  // BackboneOutput::encoder_outputs of a pass over the same sources; they replace the encoder.
  std::vector<EncoderOutput> encoder_outputs = {};

  std::int64_t rows() const { return fields.begin()->second.shape()[0]; }
  // The field with the input ids.
  std::string_view ids() const { return fields.contains("pixels") ? "pixels" : "tokens"; }
  std::int64_t time() const { return field_of(fields, ids()).shape()[1]; }
};

// Returns the columns of a host tensor or field [rows, time], i64 or f64, at this rank's positions
// inside split regions, on the device.
Tensor columns_of(const Tensor& whole, const SequenceShard& time, const Device& device);
Tensor columns_of(const ModelInput& reading,
                  std::string_view field,
                  const SequenceShard& time,
                  const Device& device);

}  // namespace longspan
