// Bidirectional encoder of text or image pixels, for tagging and classification (the encoder of
// Vaswani et al. 2017; Devlin et al. 2019).
#pragma once

#include "framework/modeling/family.h"
#include "models/patch_input.h"
#include "models/recurrence.h"
#include "models/token_input.h"

namespace longspan {

struct EncoderOptions {
  ModelOptions common = {.norm = NormPosition::pre, .initial_deviation = {}};
  InputOptions input = {};
  PatchOptions patches = {};
  PositionOptions positions = {};
  TaggingHeadType tags = TaggingHeadType::softmax;
  Pooling pooling = Pooling::first;
  bool class_layer = false;
  RecurrenceOptions recurrence = {.count = RecurrenceType::none};
};

void declare(OptionTable& table, EncoderOptions& options, const PlannedBuildOptions& planned);
BackboneFactory encoder_body(const EncoderOptions& options);
Family encoder_family();

}  // namespace longspan
