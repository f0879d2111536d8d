#include "framework/nn/fine_tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/nn/parameters.h"
#include "framework/nn/power_statistics.h"
#include "framework/options/options.h"

namespace longspan {
namespace {

bool has_any(std::string_view name, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts,
                             [&](const std::string& part) { return matches_name(name, part); });
}

// Returns each layer pattern once: "layers/*/attention/query" for that matrix in all layers.
std::vector<std::string> kinds_of(const std::vector<std::string>& names) {
  std::vector<std::string> kinds;
  for (const std::string& name : names) {
    std::string kind;
    for (std::size_t begin = 0; begin <= name.size();) {
      const std::size_t end = std::min(name.find('/', begin), name.size());
      const std::string word = name.substr(begin, end - begin);
      const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
      kind += (kind.empty() ? "" : "/") + (is_number ? "*" : word);
      begin = end + 1;
    }
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(std::move(kind));
  }
  return kinds;
}

void check_patterns(const char* key,
                    const std::vector<std::string>& parts,
                    const std::vector<std::string>& names,
                    const char* what) {
  for (const std::string& part : parts)
    if (std::ranges::none_of(names,
                             [&](const std::string& name) { return matches_name(name, part); }))
      throw ConfigurationError("{}: no {} name contains \"{}\" (choices: {})",
                               key,
                               what,
                               part,
                               fmt::join(kinds_of(names), ", "));
}

}  // namespace

double LoraOptions::factor() const {
  const auto width = static_cast<double>(*rank);
  return alpha.value_or(width) / width;
}

bool LoraOptions::adapts(std::string_view layer) const { return rank && has_any(layer, layers); }

bool FineTuning::freezes(std::string_view parameter) const {
  return adapters.rank ? !has_any(parameter, adapters.modules_to_save) : has_any(parameter, frozen);
}

bool matches_name(std::string_view name, std::string_view part) {
  if (part.empty()) return false;
  for (std::size_t at = name.find(part); at != std::string_view::npos;
       at = name.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '/') && (end == name.size() || name[end] == '/')) return true;
  }
  return false;
}

void declare(OptionTable& table, FineTuning& options) {
  LoraOptions& adapters = options.adapters;
  table.add("training.lora.rank",
            adapters.rank,
            "rank of the LoRA adapters (Hu et al. 2021): W x + (alpha / rank) B A x, with only A "
            "[rank, in] and B [out, rank] trained and B initialized with zeros; none: no "
            "adapters, all weights are trained",
            at_least(1),
            affects_weights());
  table.add("training.lora.alpha",
            adapters.alpha,
            "alpha of the adapters' scale alpha / rank; none: training.lora.rank",
            more_than(0.0),
            affects_weights(),
            only_with(is_set("training.lora.rank")));
  table.add("training.lora.dropout",
            adapters.dropout,
            "dropout probability of the inputs of adapters in attention and feed-forward layers",
            at_least(0.0),
            less_than(1.0),
            only_with(is_set("training.lora.rank")));
  table.add("training.lora.target_modules",
            adapters.layers,
            "linear layers with an adapter, by consecutive parts of their names: attention, "
            "attention/query, feed_forward/in, layers/0; [layers]: all",
            not_empty(),
            affects_weights(),
            only_with(is_set("training.lora.rank")));
  table.add("training.lora.modules_to_save",
            adapters.modules_to_save,
            "parameters that are fully trained together with the adapters, by parts of their "
            "names, such as [norm], or [output] for another output vocabulary",
            affects_weights(),
            only_with(is_set("training.lora.rank")));
  table.add("training.frozen_parameters",
            options.frozen,
            "parameters without gradients and optimizer state, by parts of their names, such as "
            "[embedding, layers/0]; also centroids and the averages of powernorm. Ignored with "
            "training.lora.rank, which freezes all parameters except the adapters and "
            "training.lora.modules_to_save",
            affects_weights());
  table.warn("training.frozen_parameters", [&adapters]() -> std::string {
    return adapters.rank ? "training.lora.rank freezes all parameters except the adapters and "
                           "training.lora.modules_to_save"
                         : "";
  });
}

void check_patterns_match(const Parameters& parameters) {
  const FineTuning& tuning = parameters.tuning();
  std::vector<std::string> names;
  for (const auto& parameter : parameters.all()) names.push_back(parameter->name);
  for (const auto& each : parameters.centroids()) names.push_back(each->name);
  for (const auto& each : parameters.power_statistics()) names.push_back(each->name);
  if (tuning.adapters.rank) {
    check_patterns("training.lora.target_modules",
                   tuning.adapters.layers,
                   parameters.linear_layers(),
                   "linear layer");
    check_patterns(
        "training.lora.modules_to_save", tuning.adapters.modules_to_save, names, "parameter");
  } else {
    check_patterns("training.frozen_parameters", tuning.frozen, names, "parameter");
  }
  if (parameters.trained().empty() && !names.empty())
    throw ConfigurationError("training.frozen_parameters leaves no parameter to train");
}

}  // namespace longspan
