#include "framework/interop/activation_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {
namespace {

struct NamedActivation {
  const char* there;
  const char* here;
};
// Export uses the first name of each.
constexpr std::array<NamedActivation, 6> activations = {{{"gelu_new", "gelu_tanh"},
                                                         {"gelu_pytorch_tanh", "gelu_tanh"},
                                                         {"gelu", "gelu"},
                                                         {"relu", "relu"},
                                                         {"silu", "silu"},
                                                         {"swish", "silu"}}};

struct GatedActivation {
  const char* inner;  // activation of the gate
  const char* gated;
};
constexpr std::array<GatedActivation, 4> gated_activations = {
    {{"relu", "reglu"}, {"gelu", "geglu"}, {"gelu_tanh", "geglu_tanh"}, {"silu", "swiglu"}}};

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

}  // namespace longspan
