// Transformer-XL (Dai et al. 2019): a language model that remembers the layer inputs of earlier
// segments.
#pragma once

#include "framework/modeling/family.h"
#include "framework/modeling/model.h"
#include "models/adaptive_spans.h"

namespace longspan {

struct TransformerXlOptions {
  ModelOptions common;
  std::int64_t memory = 256;                      // rows remembered in training
  bool same_length = false;                       // every query sees at most `longest memory` keys
  std::optional<std::int64_t> clamp_length = {};  // distances beyond it count as it
  bool share_position_biases = true;              // one u and v for all layers
  bool output_bias = true;
  SpanOptions spans = {};  // in place of the encodings of distances
};

void declare(OptionTable& table, TransformerXlOptions& options, const PlannedBuildOptions& planned);
BackboneFactory transformer_xl_body(const TransformerXlOptions& options);
// A language model.
std::unique_ptr<Model> make_transformer_xl(const TransformerXlOptions& options,
                                           const ModelBuildOptions& setting);
Family transformer_xl_family();

}  // namespace longspan
