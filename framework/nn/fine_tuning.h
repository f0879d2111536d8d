// Partial training of a model: low-rank adapters next to frozen weights, or training of all
// parameters except some.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

class OptionTable;
class Parameters;

// LoRA (Hu et al. 2021): a linear layer computes W x + (alpha / rank) B A x with A [rank, in] and B
// [out, rank]. Only A and B are trained. A is initialized uniformly in (-1, 1) / sqrt(in), B with
// zeros.
struct LoraOptions {
  std::optional<std::int64_t> rank = {};  // training.lora.rank. None: no adapters.
  std::optional<double> alpha = {};       // training.lora.alpha. None: rank.
  double dropout = 0;                     // training.lora.dropout, applied to the input of A
  // training.lora.target_modules: linear layers, matched by part of their names.
  std::vector<std::string> layers = {"attention/query", "attention/value"};
  // training.lora.modules_to_save: other trained parameters, matched by part of their names.
  std::vector<std::string> modules_to_save = {};

  double factor() const;
  // Returns whether a linear layer has an adapter.
  bool adapts(std::string_view layer) const;
};

struct FineTuning {
  LoraOptions adapters = {};
  // training.frozen_parameters, matched by part of their names
  std::vector<std::string> frozen = {};

  // Returns whether a parameter outside adapters is frozen.
  bool freezes(std::string_view parameter) const;
};

// Returns whether `part` matches consecutive whole components of a name separated by '/'.
// "layers/0/attention/query" matches "attention/query" and "layers/0", not "query/weight" or
// "layer".
bool matches_name(std::string_view name, std::string_view part);

void declare(OptionTable& table, FineTuning& options);

// Checks the built model. Throws ConfigurationError if a pattern matches no name or if no parameter
// is trained.
void check_patterns_match(const Parameters& parameters);

}  // namespace longspan
