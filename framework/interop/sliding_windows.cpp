#include "framework/interop/sliding_windows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/core/quote.h"

namespace longspan {
namespace {

constexpr const char* full_there = "full_attention";
constexpr const char* local_there = "sliding_attention";
constexpr const char* full_here = "full";
constexpr const char* local_here = "sliding_window";

constexpr std::int64_t most_window = std::int64_t{1} << 40;

// Returns the shortest list whose repetition equals this one.
std::vector<std::string> period(const std::vector<std::string>& kinds) {
  const auto count = kinds.size();
  for (std::size_t length = 1; length < count; ++length) {
    bool repeats = true;
    for (std::size_t i = length; repeats && i < count; ++i) repeats = kinds[i] == kinds[i - length];
    if (repeats) return {kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(length)};
  }
  return kinds;
}

void say_kinds(const std::vector<std::string>& kinds,
               std::int64_t window,
               ModelSettings& settings) {
  if (std::ranges::count(kinds, local_here) == 0) return;
  settings.emplace_back("model.attention.layer_types",
                        fmt::format("[{}]", fmt::join(period(kinds), ", ")));
  settings.emplace_back("model.attention.sliding_window", fmt::format("[{}]", window));
}

std::vector<std::string> kinds_by_layer(const ModelConfig& config, std::int64_t layers) {
  const std::int64_t first =
      config.has("max_window_layers") ? config.integer("max_window_layers", 0, most_window) : 28;
  std::vector<std::string> kinds;
  if (!config.has("layer_types")) {
    for (std::int64_t layer = 0; layer < layers; ++layer)
      kinds.emplace_back(layer >= first ? local_here : full_here);
    return kinds;
  }
  for (const std::string& there : config.texts("layer_types")) {
    if (there != full_there && there != local_there)
      config.throw_data_error(
          "layer_types",
          fmt::format("expected {} or {}, found {}", full_there, local_there, quote(there)));
    kinds.emplace_back(there == local_there ? local_here : full_here);
  }
  if (std::ssize(kinds) != layers)
    config.throw_data_error(
        "layer_types",
        fmt::format("expected one for each of {} layers, found {}", layers, kinds.size()));
  return kinds;
}

}  // namespace

void read_windows(const ModelConfig& config,
                  WindowKeys keys,
                  std::int64_t layers,
                  std::int64_t otherwise,
                  ModelSettings& settings) {
  if (keys == WindowKeys::none) return;
  const bool told = config.is_there("sliding_window");
  const bool any = told ? config.has("sliding_window") : otherwise > 0;
  const std::int64_t window =
      config.has("sliding_window") ? config.integer("sliding_window", 1, most_window) : otherwise;
  if (keys == WindowKeys::window) {
    if (any) say_kinds({local_here}, window, settings);
    return;
  }
  const bool used = config.flag("use_sliding_window", false) && any;
  const std::vector<std::string> kinds = kinds_by_layer(config, layers);
  if (used) return say_kinds(kinds, window, settings);
  if (config.has("layer_types") && std::ranges::count(kinds, local_here) > 0)
    config.throw_data_error("layer_types",
                            fmt::format("{} requires \"use_sliding_window\": true", local_there));
}

void write_windows(const ModelValues& values, WindowKeys keys, nlohmann::ordered_json& config) {
  if (keys == WindowKeys::none) return;
  const std::vector<std::string> kinds = values.texts("model.attention.layer_types");
  const bool any = std::ranges::count(kinds, local_here) > 0;
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
    there.emplace_back(kinds[layer % kinds.size()] == local_here ? local_there : full_there);
  config["max_window_layers"] = std::ranges::find(there, local_there) - there.begin();
  config["layer_types"] = there;
}

}  // namespace longspan
