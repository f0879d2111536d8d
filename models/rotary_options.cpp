
#include "models/positions.h"

namespace longspan {
namespace {

using enum RotaryScaling;

void declare_scaling(OptionTable& table, RotaryOptions& turning) {
  table.add("model.rope.scaling.type",
            turning.scaling,
            "extension of rotary positions beyond the training length: none, linear (angles "
            "divided by the factor, Chen et al. 2023), ntk (larger base), dynamic (larger base by "
            "sequence length), yarn (Peng et al. 2024) or llama3 (low frequencies divided), or "
            "longrope (a divisor per pair, Ding et al. 2024)",
            {{"none", none},
             {"linear", linear},
             {"dynamic", dynamic},
             {"ntk", ntk},
             {"yarn", yarn},
             {"llama3", llama3},
             {"longrope", longrope}},
            affects_weights(),
            only_with(is("model.position_embedding_type", {"rope"})));
  table.add("model.rope.scaling.factor",
            turning.factor,
            "ratio of the sequence length to model.rope.scaling.original_max_position_embeddings",
            at_least(1.0),
            affects_weights(),
            only_with(is_not("model.rope.scaling.type", "none")));
  table.add("model.rope.scaling.original_max_position_embeddings",
            turning.original,
            "sequence length that the weights were originally trained with",
            between(2, max_sequence_length),
            affects_weights(),
            only_with(is("model.rope.scaling.type", {"dynamic", "yarn", "llama3", "longrope"})));
  table.add("model.rope.scaling.attention_factor",
            turning.attention_factor,
            "factor of the rotated queries and keys; none: 0.1 ln(factor) + 1 for yarn, sqrt(1 + "
            "ln(factor) / ln(original)) for longrope, otherwise 1",
            more_than(0.0),
            affects_weights(),
            only_with(is("model.position_embedding_type", {"rope"})));
}

void declare_ramps(OptionTable& table, RotaryOptions& turning) {
  table.add(
      "model.rope.scaling.low_freq_factor",
      turning.low_frequency,
      "rotations over the original length up to which a pair's frequency is divided by the factor",
      more_than(0.0),
      affects_weights(),
      only_with(is("model.rope.scaling.type", {"llama3"})));
  table.add("model.rope.scaling.high_freq_factor",
            turning.high_frequency,
            "rotations over the original length from which on a pair's frequency is unchanged",
            more_than(0.0),
            affects_weights(),
            only_with(is("model.rope.scaling.type", {"llama3"})));
  table.add("model.rope.scaling.beta_fast",
            turning.beta_fast,
            "rotations over the original length from which on a pair's frequency is unchanged",
            more_than(0.0),
            affects_weights(),
            only_with(is("model.rope.scaling.type", {"yarn"})));
  table.add(
      "model.rope.scaling.beta_slow",
      turning.beta_slow,
      "rotations over the original length up to which a pair's frequency is divided by the factor",
      more_than(0.0),
      affects_weights(),
      only_with(is("model.rope.scaling.type", {"yarn"})));
  table.add("model.rope.scaling.short_factor",
            turning.short_factors,
            "divisor of each pair's frequency in sequences up to the original length",
            more_than(0.0),
            affects_weights(),
            only_with(is("model.rope.scaling.type", {"longrope"})));
  table.add("model.rope.scaling.long_factor",
            turning.long_factors,
            "divisor of each pair's frequency in longer sequences",
            more_than(0.0),
            affects_weights(),
            only_with(is("model.rope.scaling.type", {"longrope"})));
}

}  // namespace

void declare_rotary(OptionTable& table,
                    PositionOptions& options,
                    const ModelOptions& common,
                    Sequences sequences) {
  RotaryOptions& turning = options.rope;
  table.add("model.rope.theta",
            turning.base,
            "base of the rotary frequencies: pair j of n rotated features rotates by theta^(-2j / "
            "n) per position",
            more_than(1.0),
            affects_weights(),
            only_with(is("model.position_embedding_type", {"rope"})));
  table.add("model.rope.partial_rotary_factor",
            turning.share,
            "fraction of a head's features that is rotated, the first ones",
            more_than(0.0),
            at_most(1.0),
            affects_weights(),
            only_with(is("model.position_embedding_type", {"rope"})));
  table.add("model.rope.interleaved",
            turning.pairs,
            "rotation of pairs of adjacent features (RoFormer, GPT-J); false: of pairs across the "
            "two halves (GPT-NeoX, Llama)",
            {{"false", RotaryLayout::halves}, {"true", RotaryLayout::neighbors}},
            affects_weights(),
            only_with(is("model.position_embedding_type", {"rope"})));
  declare_scaling(table, turning);
  declare_ramps(table, turning);
  std::vector<std::string> keys = {"model.position_embedding_type",
                                   "model.hidden_size",
                                   "model.num_attention_heads",
                                   "model.head_dim"};
  for (const char* const key : {"partial_rotary_factor",
                                "scaling.type",
                                "scaling.factor",
                                "scaling.original_max_position_embeddings",
                                "scaling.low_freq_factor",
                                "scaling.high_freq_factor",
                                "scaling.beta_fast",
                                "scaling.beta_slow",
                                "scaling.short_factor",
                                "scaling.long_factor"})
    keys.push_back("model.rope." + std::string(key));
  table.check(std::move(keys), [&options, &common, sequences]() -> std::string {
    const bool told = !common.head_width && common.width % common.heads != 0;
    return told ? "" : validate_rotary(options, common, sequences);
  });
}

std::string validate_rotary_kinds(const AttentionOptions& attention) {
  const AttentionKind* const kind = first_kind_without_rotary(attention);
  if (kind == nullptr) return "";
  return fmt::format(
      "model.position_embedding_type: rope does not support {} in "
      "model.attention.layer_types; set it to sinusoidal or learned",
      kind->name);
}

std::string validate_rotary(const PositionOptions& options,
                            const ModelOptions& common,
                            Sequences sequences) {
  if (!options.rotary()) return "";
  // Padded rows would be rotated by the batch length, and decoded tokens by the length of all that
  // follow.
  if (options.rope.by_length() && sequences == Sequences::examples)
    return "model.rope.scaling.type: dynamic and longrope do not support padded batches; set it to "
           "linear, ntk, yarn or llama3";
  return validate_rotary(options.rope, common.head_dim());
}

}  // namespace longspan
