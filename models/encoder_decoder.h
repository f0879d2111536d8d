// An encoder reads a source, a decoder says a target and looks at it (Vaswani et al. 2017).
#pragma once

#include "framework/modeling/family.h"
#include "framework/modeling/non_autoregressive.h"
#include "framework/nn/attention/additive_attention.h"
#include "framework/nn/attention/cross_attention.h"
#include "models/recurrence.h"
#include "models/token_input.h"

namespace longspan {

struct EncoderDecoderOptions {
  enum class Embeddings : std::uint8_t { shared, apart };
  // causal: says one word after another; masked: all at once (models/non_autoregressive_decoder.h).
  enum class Decoder : std::uint8_t { causal, masked };

  ModelOptions common = {.norm = NormPosition::pre,
                         .initial_deviation = {}};             // of both, layers: of the decoder
  std::optional<std::int64_t> encoder_layers = {};             // as many as the decoder has
  CrossAttentionMapping wiring = CrossAttentionMapping::last;  // of cross-attention
  CrossAttentionScoreOptions scores = {};                      // likewise
  PositionOptions positions = {};                              // of both, each with its own tables
  InputOptions input = {};                                     // of both, each with its own norm
  RecurrenceOptions recurrence = {.count =
                                      RecurrenceType::none};  // of both, each with its own weights
  Embeddings embeddings = Embeddings::shared;                 // source and target have one table
  Decoder decoder = Decoder::causal;
  NatOptions masking = {};  // of a masked decoder
  CrossAttentionLossOptions source = {};
  std::int64_t alignment_heads = 1;                  // that `source` is about: the first ones
  std::optional<std::int64_t> alignment_layer = {};  // counted from 0; none: the last one

  // Of the encoder alone.
  ModelOptions encoder() const;
  static FamilyTraits encoder_traits();
  FamilyTraits decoder_traits() const;
};

// What keeps them from being, as a sentence; empty where nothing does.
std::string problem_of(const EncoderDecoderOptions& options, const MemoryOptions& memory);

void declare(OptionTable& table,
             EncoderDecoderOptions& options,
             const PlannedBuildOptions& planned);
BackboneFactory encoder_decoder_body(const EncoderDecoderOptions& options);
Family encoder_decoder_family();

}  // namespace longspan
