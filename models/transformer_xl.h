// Transformer-XL (Dai et al. 2019): a language model with a memory of the layer inputs of earlier
// segments.
#pragma once

#include "framework/modeling/family.h"
#include "framework/modeling/model.h"
#include "models/adaptive_spans.h"

namespace longspan {

struct TransformerXlOptions {
  ModelOptions common;
  std::int64_t memory = 256;  // memory length (`mem_len`) in training
  bool same_length = false;   // limits attention to as many keys as the memory length
  std::optional<std::int64_t> clamp_length = {};  // relative positions are clamped to it
  bool share_position_biases = true;              // one u and v for all layers
  bool output_bias = true;
  SpanOptions spans = {};  // replaces the relative position encodings
};

void declare(OptionTable& table, TransformerXlOptions& options, const PlannedBuildOptions& planned);
BackboneFactory transformer_xl_body(const TransformerXlOptions& options);
std::unique_ptr<Model> make_transformer_xl(const TransformerXlOptions& options,
                                           const ModelBuildOptions& setting);
Family transformer_xl_family();

}  // namespace longspan
