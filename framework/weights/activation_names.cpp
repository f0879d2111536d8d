#include "framework/weights/activation_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/core/option_text.h"

namespace longspan {
namespace {

struct NamedActivation {
  const char* there;
  const char* here;
};
// The first name of each is exported.
constexpr std::array<NamedActivation, 6> activations = {{{"gelu_new", "gelu_tanh"},
                                                         {"gelu_pytorch_tanh", "gelu_tanh"},
                                                         {"gelu", "gelu"},
                                                         {"relu", "relu"},
                                                         {"silu", "silu"},
                                                         {"swish", "silu"}}};

}  // namespace

std::string activation_here(const ModelConfig& config, const std::string& key) {
  return activation_here(config, key, config.text(key));
}

std::string activation_here(const ModelConfig& config,
                            const std::string& key,
                            const std::string& there) {
  const auto found = std::ranges::find(activations, there, &NamedActivation::there);
  if (found != activations.end()) return found->here;
  std::vector<std::string> names;
  for (const NamedActivation& each : activations) names.emplace_back(each.there);
  config.refuse(key, fmt::format("found {}; wanted {}", in_quotes(there), either(names)));
}

std::string activation_there(const std::string& here) {
  const auto found = std::ranges::find(activations, here, &NamedActivation::here);
  return (found == activations.end() ? activations.front() : *found).there;
}

}  // namespace longspan
