// What of a model is trained, where that is not all of it: low-rank adapters beside weights that
// stay as they are, or all weights but some.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

class OptionTable;
class Parameters;

// Hu et al. 2021: a linear layer computes W x + (alpha / rank) B A x, A [rank, in] and B [out,
// rank], of which A and B are trained. A begins uniform in (-1, 1) / sqrt(in), B as zeros.
struct LoraOptions {
  std::optional<std::int64_t> rank = {};  // training.lora.rank; none: there are no adapters
  std::optional<double> alpha = {};       // training.lora.alpha; none: the rank
  double dropout = 0;                     // training.lora.dropout, of what A reads
  // training.lora.target_modules: the linear layers, by a part of their names.
  std::vector<std::string> layers = {"attention/query", "attention/value"};
  // training.lora.modules_to_save: parameters that are trained too, by a part of their names.
  std::vector<std::string> beside = {};

  double factor() const;
  // Whether a linear layer has an adapter.
  bool adapts(std::string_view layer) const;
};

struct FineTuning {
  LoraOptions adapters = {};
  std::vector<std::string> frozen = {};  // training.frozen_parameters, by a part of their names

  // Whether a parameter that is none of an adapter stays as it is.
  bool freezes(std::string_view parameter) const;
};

// Whether whole words of a name, which '/' parts, are those of `part`: "layers/0/attention/query"
// has "attention/query" and "layers/0", not "query/weight" or "layer".
bool matches_name(std::string_view name, std::string_view part);

void declare(OptionTable& table, FineTuning& options);

// Once a model is built: throws ConfigurationError where a part is in no name of it, or nothing is
// left to train.
void check_patterns_match(const Parameters& parameters);

}  // namespace longspan
