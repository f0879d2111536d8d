#include "framework/interop/config_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {
namespace {

struct NamedActivation {
  const char* there;
  const char* here;
};
// Export uses the first name of each.
constexpr std::array<NamedActivation, 7> activations = {{{"gelu_new", "gelu_tanh"},
                                                         {"gelu_pytorch_tanh", "gelu_tanh"},
                                                         {"gelu", "gelu"},
                                                         {"relu", "relu"},
                                                         {"silu", "silu"},
                                                         {"relu2", "relu2"},
                                                         {"swish", "silu"}}};

struct GatedActivation {
  const char* inner;  // activation of the gate
  const char* gated;
};
constexpr std::array<GatedActivation, 4> gated_activations = {
    {{"relu", "reglu"}, {"gelu", "geglu"}, {"gelu_tanh", "geglu_tanh"}, {"silu", "swiglu"}}};

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

constexpr NumberRange of_share = {
    .least = 1e-300, .below = 1 + 1e-12, .text = "a number above 0 and at most 1"};

void write_positions(const ModelValues& values, nlohmann::ordered_json& config) {
  // Dynamic scaling begins at this position.
  const bool dynamic = values.is("model.rope.scaling.type", "dynamic");
  config["max_position_embeddings"] =
      dynamic ? values.integer_or("model.rope.scaling.original_max_position_embeddings", 1)
              : std::max(values.integer_or("model.max_position_embeddings", 1),
                         values.integer("data.seq_length"));
}

constexpr const char* hf_full = "full_attention";
constexpr const char* hf_local = "sliding_attention";
constexpr const char* longspan_full = "full";
constexpr const char* longspan_local = "sliding_window";

constexpr std::int64_t max_window = std::int64_t{1} << 40;

void set_layer_types(const std::vector<std::string>& kinds,
                     std::int64_t window,
                     ModelSettings& settings) {
  if (std::ranges::count(kinds, longspan_local) == 0) return;
  settings.emplace_back("model.attention.layer_types",
                        fmt::format("[{}]", fmt::join(shortest_period(kinds), ", ")));
  settings.emplace_back("model.attention.sliding_window", fmt::format("[{}]", window));
}

std::vector<std::string> kinds_by_layer(const ModelConfig& config, std::int64_t layers) {
  const std::int64_t first =
      config.has("max_window_layers") ? config.integer("max_window_layers", 0, max_window) : 28;
  std::vector<std::string> kinds;
  if (!config.has("layer_types")) {
    for (std::int64_t layer = 0; layer < layers; ++layer)
      kinds.emplace_back(layer >= first ? longspan_local : longspan_full);
    return kinds;
  }
  for (const std::string& there : config.texts("layer_types")) {
    if (there != hf_full && there != hf_local)
      config.throw_data_error(
          "layer_types",
          fmt::format("expected {} or {}, found {}", hf_full, hf_local, quote(there)));
    kinds.emplace_back(there == hf_local ? longspan_local : longspan_full);
  }
  if (std::ssize(kinds) != layers)
    config.throw_data_error(
        "layer_types",
        fmt::format("expected one for each of {} layers, found {}", layers, kinds.size()));
  return kinds;
}

}  // namespace

std::string from_hf_activation(const ModelConfig& config, const std::string& key) {
  return from_hf_activation(config, key, config.text(key));
}

std::string from_hf_activation(const ModelConfig& config,
                               const std::string& key,
                               const std::string& there) {
  const auto found = std::ranges::find(activations, there, &NamedActivation::there);
  if (found != activations.end()) return found->here;
  std::vector<std::string> names;
  for (const NamedActivation& each : activations) names.emplace_back(each.there);
  config.throw_data_error(key, fmt::format("expected {}, found {}", join_or(names), quote(there)));
}

std::string gated_activation(const std::string& inner) {
  const auto found = std::ranges::find(gated_activations, inner, &GatedActivation::inner);
  require(found != gated_activations.end(), "activation {} has no gated variant", inner);
  return found->gated;
}

bool is_gated_activation(const std::string& here) {
  return std::ranges::find(gated_activations, here, &GatedActivation::gated) !=
         gated_activations.end();
}

std::string to_hf_activation(const std::string& here) {
  const auto gated = std::ranges::find(gated_activations, here, &GatedActivation::gated);
  const std::string inner = gated == gated_activations.end() ? here : gated->inner;
  const auto found = std::ranges::find(activations, inner, &NamedActivation::here);
  return (found == activations.end() ? activations.front() : *found).there;
}

std::vector<std::string> shortest_period(const std::vector<std::string>& kinds) {
  const auto count = kinds.size();
  for (std::size_t length = 1; length < count; ++length) {
    bool repeats = true;
    for (std::size_t i = length; repeats && i < count; ++i) repeats = kinds[i] == kinds[i - length];
    if (repeats) return {kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(length)};
  }
  return kinds;
}

void read_rope(const ModelConfig& config,
               std::int64_t positions,
               ModelSettings& settings,
               std::optional<double> rotated) {
  constexpr const char* share = "partial_rotary_factor";
  const bool newer = config.has("rope_parameters");
  const bool scaled = config.has("rope_scaling");
  if (newer && scaled)
    config.throw_data_error("rope_scaling", "cannot be combined with \"rope_parameters\"");
  const double base = config.number("rope_theta", 10000, from_1);
  const auto set_theta = [&](double found) {
    settings.emplace_back("model.rope.theta", fmt::format("{}", found));
  };
  const auto read_share = [&](const ModelConfig& from) {
    if (rotated)
      rotated = from.number(share, *rotated, of_share);
    else
      from.require_number(share, 1, "all features of a head are rotated");
  };
  const auto set_share = [&] {
    if (rotated)
      settings.emplace_back("model.rope.partial_rotary_factor", fmt::format("{}", *rotated));
  };
  settings.emplace_back("model.position_embedding_type", "rope");
  read_share(config);
  if (!newer && !scaled) {
    set_theta(base);
    return set_share();
  }
  const ModelConfig rope = config.section(newer ? "rope_parameters" : "rope_scaling");
  set_theta(rope.number("rope_theta", base, from_1));
  read_share(rope);
  set_share();
  std::ranges::move(read_scaling(rope, positions), std::back_inserter(settings));
  pass_over_other_kinds(rope);
  // The three position grids of Qwen are equal for texts.
  if (rotated) rope.ignore_keys({"mrope_section", "mrope_interleaved"});
  rope.finish();
}

void write_rope(const ModelValues& values, nlohmann::ordered_json& config) {
  write_positions(values, config);
  config["rope_theta"] = values.number_or("model.rope.theta", 10000);
  config["rope_scaling"] = hf_rope_scaling(values);
}

void write_rope_parameters(const ModelValues& values, nlohmann::ordered_json& config) {
  write_positions(values, config);
  nlohmann::ordered_json rope = {{"rope_type", "default"}};
  if (const nlohmann::ordered_json scaling = hf_rope_scaling(values); !scaling.is_null())
    rope = scaling;
  rope["rope_theta"] = values.number_or("model.rope.theta", 10000);
  rope["partial_rotary_factor"] = values.number_or("model.rope.partial_rotary_factor", 1);
  config["rope_parameters"] = rope;
}

void read_windows(const ModelConfig& config,
                  WindowKeys keys,
                  std::int64_t layers,
                  std::int64_t otherwise,
                  ModelSettings& settings) {
  if (keys == WindowKeys::none) return;
  const bool told = config.is_present("sliding_window");
  const bool any = told ? config.has("sliding_window") : otherwise > 0;
  const std::int64_t window =
      config.has("sliding_window") ? config.integer("sliding_window", 1, max_window) : otherwise;
  if (keys == WindowKeys::window) {
    if (any) set_layer_types({longspan_local}, window, settings);
    return;
  }
  const bool used = config.flag("use_sliding_window", false) && any;
  const std::vector<std::string> kinds = kinds_by_layer(config, layers);
  if (used) return set_layer_types(kinds, window, settings);
  if (config.has("layer_types") && std::ranges::count(kinds, longspan_local) > 0)
    config.throw_data_error("layer_types",
                            fmt::format("{} requires \"use_sliding_window\": true", hf_local));
}

void write_windows(const ModelValues& values, WindowKeys keys, nlohmann::ordered_json& config) {
  if (keys == WindowKeys::none) return;
  const std::vector<std::string> kinds = values.texts("model.attention.layer_types");
  const bool any = std::ranges::count(kinds, longspan_local) > 0;
  const nlohmann::ordered_json window =
      any ? nlohmann::ordered_json(
                static_cast<std::int64_t>(values.numbers("model.attention.sliding_window").front()))
          : nlohmann::ordered_json(nullptr);
  config["sliding_window"] = window;
  if (keys == WindowKeys::window) return;
  config["use_sliding_window"] = any;
  const auto layers = static_cast<std::size_t>(values.integer("model.num_hidden_layers"));
  std::vector<std::string> there;
  for (std::size_t layer = 0; layer < layers; ++layer)
    there.emplace_back(kinds[layer % kinds.size()] == longspan_local ? hf_local : hf_full);
  config["max_window_layers"] = std::ranges::find(there, hf_local) - there.begin();
  config["layer_types"] = there;
}

ModelSettings read_encoder_keys(const ModelConfig& config, double dropout) {
  constexpr std::int64_t widest = std::int64_t{1} << 24;
  const std::int64_t width = config.integer("hidden_size", 1, widest);
  const std::int64_t heads = config.integer("num_attention_heads", 1, 1 << 16);
  if (width % heads != 0)
    config.throw_data_error(
        "num_attention_heads",
        fmt::format("expected a divisor of hidden_size ({}), found {}", width, heads));
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {
      {"model.family", "encoder"},
      {"model.num_hidden_layers", number(config.integer("num_hidden_layers", 1, 1 << 16))},
      {"model.hidden_size", number(width)},
      {"model.num_attention_heads", number(heads)},
      {"model.intermediate_size", number(config.integer("intermediate_size", 1, 1 << 28))},
      {"model.activation",
       config.has("hidden_act") ? from_hf_activation(config, "hidden_act") : "gelu"},
      {"model.norm.eps", number(config.number("layer_norm_eps", 1e-12, above_0))},
      {"model.initializer_range", number(config.number("initializer_range", 0.02, from_0))},
      {"model.dropout", number(config.number("hidden_dropout_prob", dropout, of_dropout))},
      {"model.attention.dropout",
       number(config.number("attention_probs_dropout_prob", dropout, of_dropout))},
  };
}

nlohmann::ordered_json write_encoder_keys(const ModelValues& values) {
  const std::int64_t width = values.integer("model.hidden_size");
  return {{"hidden_size", width},
          {"num_hidden_layers", values.integer("model.num_hidden_layers")},
          {"num_attention_heads", values.integer("model.num_attention_heads")},
          {"intermediate_size", values.integer_or("model.intermediate_size", 4 * width)},
          {"hidden_act", to_hf_activation(values.text("model.activation"))},
          {"hidden_dropout_prob", values.number_or("model.dropout", 0)},
          {"attention_probs_dropout_prob", values.number_or("model.attention.dropout", 0)},
          {"initializer_range", values.number_or("model.initializer_range", 0.02)},
          {"layer_norm_eps", values.number_or("model.norm.eps", 0)}};
}

}  // namespace longspan
