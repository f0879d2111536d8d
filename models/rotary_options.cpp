#include "models/rotary_options.h"

#include <algorithm>

namespace longspan {
namespace {

using enum RotaryScaling;

void declare_scaling(OptionTable& table, RotaryOptions& turning) {
  table.add(
      "model.rope.scaling.type",
      turning.scaling,
      "how rotary positions reach beyond the length that weights were trained for: angles "
      "divided by a factor (linear, Chen et al. 2023); a larger base, for all lengths (ntk) or "
      "by how much longer a sequence is (dynamic); slow pairs divided and fast ones not (yarn, "
      "Peng et al. 2024; llama3); a divisor for each pair (longrope, Ding et al. 2024)",
      {{"none", none},
       {"linear", linear},
       {"dynamic", dynamic},
       {"ntk", ntk},
       {"yarn", yarn},
       {"llama3", llama3},
       {"longrope", longrope}},
      affects_weights());
  table.add("model.rope.scaling.factor",
            turning.factor,
            "with model.rope.scaling.type, how many times as long sequences are as "
            "model.rope.scaling.original_max_position_embeddings",
            at_least(1.0),
            affects_weights());
  table.add(
      "model.rope.scaling.original_max_position_embeddings",
      turning.original,
      "with model.rope.scaling.type, the positions of the sequences that the weights were trained "
      "with before",
      between(2, longest_sequence),
      affects_weights());
  table.add(
      "model.rope.scaling.attention_factor",
      turning.attention_factor,
      "what turned queries and keys are multiplied by; none: with yarn 0.1 ln(factor) + 1, with "
      "longrope the root of 1 + ln(factor) / ln(original), otherwise 1",
      more_than(0.0),
      affects_weights());
}

void declare_ramps(OptionTable& table, RotaryOptions& turning) {
  table.add("model.rope.scaling.low_freq_factor",
            turning.low_frequency,
            "with llama3, turns in the original length up to which a pair is divided by the factor",
            more_than(0.0),
            affects_weights());
  table.add("model.rope.scaling.high_freq_factor",
            turning.high_frequency,
            "with llama3, turns in the original length from which on a pair is as it was",
            more_than(0.0),
            affects_weights());
  table.add("model.rope.scaling.beta_fast",
            turning.beta_fast,
            "with yarn, turns in the original length from which on a pair is as it was",
            more_than(0.0),
            affects_weights());
  table.add("model.rope.scaling.beta_slow",
            turning.beta_slow,
            "with yarn, turns in the original length up to which a pair is divided by the factor",
            more_than(0.0),
            affects_weights());
  table.add(
      "model.rope.scaling.short_factor",
      turning.short_factors,
      "with longrope, what the frequency of each pair is divided by in sequences of at most the "
      "original length",
      more_than(0.0),
      affects_weights());
  table.add("model.rope.scaling.long_factor",
            turning.long_factors,
            "the same in longer ones",
            more_than(0.0),
            affects_weights());
}

// The keys that some scalings read and others do not.
void warn_of_unread(OptionTable& table, const PositionOptions& options) {
  const std::vector<std::pair<std::string, std::vector<RotaryScaling>>> readers = {
      {"scaling.factor", {linear, dynamic, ntk, yarn, llama3, longrope}},
      {"scaling.original_max_position_embeddings", {dynamic, yarn, llama3, longrope}},
      {"scaling.low_freq_factor", {llama3}},
      {"scaling.high_freq_factor", {llama3}},
      {"scaling.beta_fast", {yarn}},
      {"scaling.beta_slow", {yarn}},
      {"scaling.short_factor", {longrope}},
      {"scaling.long_factor", {longrope}}};
  const auto not_rotary = [&options]() -> std::string {
    return options.rotary() ? "" : "model.position_embedding_type is not rope";
  };
  for (const auto& [key, scalings] : readers)
    table.warn("model.rope." + key, [&options, not_rotary, scalings = scalings] {
      const std::string reason = not_rotary();
      const bool read = std::ranges::count(scalings, options.rope.scaling) > 0;
      return reason.empty() && !read ? "model.rope.scaling.type is one that does not read it"
                                     : reason;
    });
  for (const char* const key : {"theta",
                                "partial_rotary_factor",
                                "interleaved",
                                "scaling.type",
                                "scaling.attention_factor"})
    table.warn("model.rope." + std::string(key), not_rotary);
}

}  // namespace

void declare_rotary(OptionTable& table,
                    PositionOptions& options,
                    const ModelOptions& common,
                    Sequences sequences) {
  RotaryOptions& turning = options.rope;
  table.add("model.rope.theta",
            turning.base,
            "with model.position_embedding_type: rope, pair j of the n features of a head that are "
            "turned is "
            "turned by base^(-2j / n) at each position",
            more_than(1.0),
            affects_weights());
  table.add("model.rope.partial_rotary_factor",
            turning.share,
            "the part of a head's features that is turned, the first ones",
            more_than(0.0),
            at_most(1.0),
            affects_weights());
  table.add(
      "model.rope.interleaved",
      turning.pairs,
      "rotates pairs of neighboring features (RoFormer, GPT-J); false: pairs of the two halves "
      "(GPT-NeoX, Llama)",
      {{"false", RotaryLayout::halves}, {"true", RotaryLayout::neighbours}},
      affects_weights());
  declare_scaling(table, turning);
  declare_ramps(table, turning);
  warn_of_unread(table, options);
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
    return told ? "" : rotary_problem(options, common, sequences);
  });
}

std::string validate_rotary_kinds(const AttentionOptions& attention) {
  const AttentionKind* const kind = first_kind_without_rotary(attention);
  if (kind == nullptr) return "";
  return fmt::format(
      "model.position_embedding_type: found rope with {} in model.attention.layer_types, whose "
      "scores are no products of "
      "one "
      "query and one key; set it to sinusoidal or learned",
      kind->name);
}

std::string rotary_problem(const PositionOptions& options,
                           const ModelOptions& common,
                           Sequences sequences) {
  if (!options.rotary()) return "";
  // Padded rows would be turned by the length of the batch, and what is decoded by all that
  // follows.
  if (options.rope.by_length() && sequences == Sequences::examples)
    return "model.rope.scaling.type: dynamic and longrope turn by the length of the whole "
           "sequence, "
           "which batches of examples pad; set it to linear, ntk, yarn or llama3";
  return rotary_problem(options.rope, common.head_dim());
}

}  // namespace longspan
