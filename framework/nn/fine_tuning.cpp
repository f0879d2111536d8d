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

// "layers/*/attention/query" of all its layers: each kind once.
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

void refuse_stranger(const char* key,
                     const std::vector<std::string>& parts,
                     const std::vector<std::string>& names,
                     const char* what) {
  for (const std::string& part : parts)
    if (std::ranges::none_of(names,
                             [&](const std::string& name) { return matches_name(name, part); }))
      throw ConfigurationError("{}: no {} of this model has \"{}\" in its name; they are {}",
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
  return adapters.rank ? !has_any(parameter, adapters.beside) : has_any(parameter, frozen);
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
            "low-rank adapters (Hu et al. 2021): a linear layer with the weight W computes W x + "
            "(alpha / rank) B A x, where A [rank, in] and B [out, rank], which begins as zeros, "
            "are trained alone; none: there are no adapters, and all weights are trained",
            at_least(1),
            affects_weights());
  table.add("training.lora.alpha",
            adapters.alpha,
            "of adapters, the factor of B A x is alpha / rank; none: the rank",
            more_than(0.0),
            affects_weights());
  table.add("training.lora.dropout",
            adapters.dropout,
            "of what the adapters of attention and feed-forward layers read, in training",
            at_least(0.0),
            less_than(1.0));
  table.add("training.lora.target_modules",
            adapters.layers,
            "the linear layers that have an adapter, by words of their names that follow one "
            "another: attention, attention/query, feed_forward/in, layers/0; [layers] is all",
            not_empty(),
            affects_weights());
  table.add("training.lora.modules_to_save",
            adapters.beside,
            "parameters that are trained whole beside the adapters, by words of their names: "
            "[output] where another text is read out, [norm]",
            affects_weights());
  table.add("training.frozen_parameters",
            options.frozen,
            "parameters that stay as they are, by words of their names: [embedding, layers/0]; "
            "they have no gradients and nothing of the optimizer. So do moving centroids and the "
            "averages of power norms with such names. With adapters all do but those of "
            "training.lora.modules_to_save",
            affects_weights());
  for (const char* const key : {"training.lora.alpha",
                                "training.lora.dropout",
                                "training.lora.target_modules",
                                "training.lora.modules_to_save"})
    table.warn(key, [&adapters]() -> std::string {
      return adapters.rank ? "" : "there is no training.lora.rank";
    });
  table.warn("training.frozen_parameters", [&adapters]() -> std::string {
    return adapters.rank ? "with training.lora.rank all is frozen but the adapters and what "
                           "training.lora.modules_to_save names"
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
    refuse_stranger("training.lora.target_modules",
                    tuning.adapters.layers,
                    parameters.linear_layers(),
                    "linear layer");
    refuse_stranger("training.lora.modules_to_save", tuning.adapters.beside, names, "parameter");
  } else {
    refuse_stranger("training.frozen_parameters", tuning.frozen, names, "parameter");
  }
  if (parameters.trained().empty() && !names.empty())
    throw ConfigurationError(
        "training.frozen_parameters: leaves no parameter of this model to train");
}

}  // namespace longspan
