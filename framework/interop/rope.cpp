#include "framework/interop/rope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "framework/core/quote.h"

namespace longspan {
namespace {

// Scaling types by name there and here, and the keys that they read, which are renamed here.
struct Scaling {
  const char* there;
  const char* here;
  bool factor;     // required
  bool original;   // "original_max_position_embeddings"
  bool attention;  // "attention_factor"
};
constexpr Scaling scalings[] = {{"default", "none", false, false, false},
                                {"linear", "linear", true, false, false},
                                {"dynamic", "dynamic", true, false, false},
                                {"yarn", "yarn", false, true, true},
                                {"llama3", "llama3", true, true, false},
                                {"longrope", "longrope", false, true, true}};

struct NamedNumber {
  const char* there;
  const char* here;
  double otherwise;
};
// Numbers of yarn and llama3.
constexpr NamedNumber yarn_numbers[] = {{"beta_fast", "model.rope.scaling.beta_fast", 32},
                                        {"beta_slow", "model.rope.scaling.beta_slow", 1}};
constexpr NamedNumber llama3_numbers[] = {
    {"low_freq_factor", "model.rope.scaling.low_freq_factor", 1},
    {"high_freq_factor", "model.rope.scaling.high_freq_factor", 4}};

// Ignores keys of other scaling types, which `transformers` does not read.
void pass_over_other_kinds(const ModelConfig& rope) {
  rope.ignore_keys({"original_max_position_embeddings",
                    "max_position_embeddings",
                    "attention_factor",
                    "mscale",
                    "mscale_all_dim",
                    "truncate",
                    "short_factor",
                    "long_factor",
                    "short_mscale",
                    "long_mscale",
                    "finetuned"});
  for (const NamedNumber& each : yarn_numbers) rope.ignore_keys({each.there});
  for (const NamedNumber& each : llama3_numbers) rope.ignore_keys({each.there});
  // A factor without a type would change the scaling.
  if (rope.has("rope_type") || rope.has("type")) rope.ignore_keys({"factor"});
  rope.require_number("partial_rotary_factor", 1, "all features of a head are rotated");
  rope.require_number("attn_factor", 1, "\"attention_factor\" scales scores");
  rope.require_number("extrapolation_factor", 1, "high frequencies are not interpolated");
}

const Scaling& scaling_of(const ModelConfig& rope) {
  // Older versions wrote "type".
  const bool newer = rope.has("rope_type");
  const bool older = rope.has("type");
  if (!newer && !older) return scalings[0];
  const char* const key = newer ? "rope_type" : "type";
  const std::string name = rope.text(key);
  std::vector<std::string> names;
  for (const Scaling& each : scalings) {
    if (name == each.there) return each;
    names.emplace_back(each.there);
  }
  rope.throw_data_error(key, fmt::format("expected {}, found {}", join_or(names), quote(name)));
}

std::string numbers_text(const std::vector<double>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

// Returns the score factor of two "mscale" numbers. Otherwise it depends only on the scaling factor
// (YaRN).
std::optional<double> attention_factor(const ModelConfig& rope, bool yarn, double factor) {
  // Read before the return, so that both keys are marked as read.
  const double one = yarn ? rope.number("mscale", 0) : 0;
  const double other = yarn ? rope.number("mscale_all_dim", 0) : 0;
  if (rope.has("attention_factor")) return rope.number("attention_factor", 0, above_0);
  if (one == 0 || other == 0) return {};
  const auto scale = [&](double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
  };
  return scale(one) / scale(other);
}

// Returns nothing without scaling.
ModelSettings read_scaling(const ModelConfig& rope, std::int64_t positions) {
  const Scaling& scaling = scaling_of(rope);
  const std::string kind = scaling.here;
  ModelSettings settings;
  const auto say = [&](const char* key, const auto& value) {
    settings.emplace_back(key, fmt::format("{}", value));
  };
  if (kind == "none") return settings;
  say("model.rope.scaling.type", kind);
  const double original =
      scaling.original && rope.has("original_max_position_embeddings")
          ? static_cast<double>(rope.integer("original_max_position_embeddings", 2, max_positions))
          : static_cast<double>(positions);
  if (scaling.factor && !rope.has("factor"))
    rope.throw_data_error("factor", "expected a number, found nothing");
  // Phi 3 and others omit it.
  const double factor = rope.number("factor", static_cast<double>(positions) / original, from_1);
  say("model.rope.scaling.factor", factor);
  if (kind != "linear")
    say("model.rope.scaling.original_max_position_embeddings", static_cast<std::int64_t>(original));
  std::optional<double> attention;
  if (scaling.attention) attention = attention_factor(rope, kind == "yarn", factor);
  if (attention) say("model.rope.scaling.attention_factor", *attention);
  if (kind == "yarn") {
    rope.require_flag("truncate", true, "ramp bounds are rounded to whole pairs");
    for (const NamedNumber& each : yarn_numbers)
      say(each.here, rope.number(each.there, each.otherwise, above_0));
  }
  if (kind == "llama3")
    for (const NamedNumber& each : llama3_numbers)
      say(each.here, rope.number(each.there, each.otherwise, above_0));
  if (kind == "longrope") {
    say("model.rope.scaling.short_factor", numbers_text(rope.numbers("short_factor")));
    say("model.rope.scaling.long_factor", numbers_text(rope.numbers("long_factor")));
  }
  // Unscaled angles and scores are equivalent to no scaling.
  const bool divides = kind == "linear" || kind == "yarn" || kind == "llama3";
  if (divides && factor == 1 && attention.value_or(1) == 1) return {};
  return settings;
}

nlohmann::ordered_json hf_rope_scaling(const ModelValues& values) {
  const std::string& kind = values.text("model.rope.scaling.type");
  const auto found = std::ranges::find(scalings, kind, &Scaling::here);
  // The comparison of both models detects a scaling that `transformers` lacks.
  if (found == std::end(scalings) || kind == "none") return nullptr;
  nlohmann::ordered_json there = {{"rope_type", found->there},
                                  {"factor", values.number_or("model.rope.scaling.factor", 1)}};
  if (found->original)
    there["original_max_position_embeddings"] =
        values.integer_or("model.rope.scaling.original_max_position_embeddings", 0);
  if (found->attention && !values.is("model.rope.scaling.attention_factor", "none"))
    there["attention_factor"] = values.number_or("model.rope.scaling.attention_factor", 1);
  if (kind == "yarn")
    for (const NamedNumber& each : yarn_numbers)
      there[each.there] = values.number_or(each.here, each.otherwise);
  if (kind == "llama3")
    for (const NamedNumber& each : llama3_numbers)
      there[each.there] = values.number_or(each.here, each.otherwise);
  if (kind == "longrope") {
    there["short_factor"] = values.numbers("model.rope.scaling.short_factor");
    there["long_factor"] = values.numbers("model.rope.scaling.long_factor");
  }
  return there;
}

}  // namespace

void read_rope(const ModelConfig& config, std::int64_t positions, ModelSettings& settings) {
  const bool newer = config.has("rope_parameters");
  const bool scaled = config.has("rope_scaling");
  if (newer && scaled)
    config.throw_data_error("rope_scaling", "cannot be combined with \"rope_parameters\"");
  const double base = config.number("rope_theta", 10000, from_1);
  const auto set_theta = [&](double found) {
    settings.emplace_back("model.rope.theta", fmt::format("{}", found));
  };
  settings.emplace_back("model.position_embedding_type", "rope");
  if (!newer && !scaled) return set_theta(base);
  const ModelConfig rope = config.section(newer ? "rope_parameters" : "rope_scaling");
  set_theta(rope.number("rope_theta", base, from_1));
  std::ranges::move(read_scaling(rope, positions), std::back_inserter(settings));
  pass_over_other_kinds(rope);
  rope.finish();
}

void write_rope(const ModelValues& values, nlohmann::ordered_json& config) {
  // Dynamic scaling begins at this position.
  const bool dynamic = values.is("model.rope.scaling.type", "dynamic");
  config["max_position_embeddings"] =
      dynamic ? values.integer_or("model.rope.scaling.original_max_position_embeddings", 1)
              : std::max(values.integer_or("model.max_position_embeddings", 1),
                         values.integer("data.seq_length"));
  config["rope_theta"] = values.number_or("model.rope.theta", 10000);
  config["rope_scaling"] = hf_rope_scaling(values);
}

}  // namespace longspan
