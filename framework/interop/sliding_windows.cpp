#include "framework/interop/sliding_windows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/core/quote.h"

namespace longspan {
namespace {

constexpr const char* hf_full = "full_attention";
constexpr const char* hf_local = "sliding_attention";
constexpr const char* longspan_full = "full";
constexpr const char* longspan_local = "sliding_window";

constexpr std::int64_t max_window = std::int64_t{1} << 40;

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

void set_layer_types(const std::vector<std::string>& kinds,
                     std::int64_t window,
                     ModelSettings& settings) {
  if (std::ranges::count(kinds, longspan_local) == 0) return;
  settings.emplace_back("model.attention.layer_types",
                        fmt::format("[{}]", fmt::join(period(kinds), ", ")));
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

}  // namespace longspan
