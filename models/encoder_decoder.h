// Encoder-decoder with cross-attention (Vaswani et al. 2017).
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
  // causal: autoregressive; masked: non-autoregressive (models/non_autoregressive_decoder.h).
  enum class Decoder : std::uint8_t { causal, masked };

  ModelOptions common = {.norm = NormPosition::pre,
                         .initial_deviation = {}};  // of both stacks; `layers` applies to the
                                                    // decoder
  std::optional<std::int64_t> encoder_layers = {};  // default: as many as the decoder
  CrossAttentionMapping wiring = CrossAttentionMapping::last;  // of cross-attention
  CrossAttentionScoreOptions scores = {};                      // of cross-attention
  PositionOptions positions = {};  // of both stacks, each with its own tables
  InputOptions input = {};         // of both stacks, each with its own norm
  RecurrenceOptions recurrence = {.count =
                                      // of both stacks, each with its own weights
                                  RecurrenceType::none};
  Embeddings embeddings = Embeddings::shared;  // source and target share one table
  Decoder decoder = Decoder::causal;
  NatOptions masking = {};  // of non-autoregressive decoding
  CrossAttentionLossOptions source = {};
  std::int64_t alignment_heads = 1;  // heads that `source` applies to: the first ones
  std::optional<std::int64_t> alignment_layer = {};  // counted from 0; none: the last layer

  // Options of the encoder.
  ModelOptions encoder() const;
  static FamilyTraits encoder_traits();
  FamilyTraits decoder_traits() const;
  // As Backbone::whole_sequence_setting, for the target.
  std::string whole_target_setting() const;
};

// Returns why the options are unsupported; empty if they are supported.
std::string problem_of(const EncoderDecoderOptions& options, const MemoryOptions& memory);

void declare(OptionTable& table,
             EncoderDecoderOptions& options,
             const PlannedBuildOptions& planned);
BackboneFactory encoder_decoder_body(const EncoderDecoderOptions& options);
Family encoder_decoder_family();

}  // namespace longspan
