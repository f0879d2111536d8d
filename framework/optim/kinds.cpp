#include "framework/optim/kinds.h"

#include <algorithm>

namespace longspan {

// An optimizer needs an entry here, a name in optimizer_options.cpp and a file.
const std::vector<OptimizerKindEntry>& optimizer_kinds() {
  using Kind = OptimizerKind;
  static const std::vector<OptimizerKindEntry> all = {
      {Kind::adamw, "adamw", {"beta1", "beta2", "eps"}, make_adam},
      {Kind::adam, "adam", {"beta1", "beta2", "eps"}, make_adam},
      {Kind::sgd, "sgd", {"momentum", "nesterov"}, make_sgd},
      {Kind::lamb, "lamb", {"beta1", "beta2", "eps", "lamb.*"}, make_lamb},
      {Kind::adafactor, "adafactor", {"beta1", "eps", "adafactor.*"}, make_adafactor},
      {Kind::adagrad, "adagrad", {"eps", "adagrad.*"}, make_adagrad},
      {Kind::radam, "radam", {"beta1", "beta2", "eps"}, make_adam},
      {Kind::lion, "lion", {"beta1", "beta2"}, make_lion},
      {Kind::muon, "muon", {"momentum", "nesterov", "beta1", "beta2", "eps", "muon.*"}, make_muon},
      {Kind::schedule_free,
       "schedule_free_adamw",
       {"beta1", "beta2", "eps"},
       make_schedule_free,
       true},
  };
  return all;
}

const OptimizerKindEntry& entry_of(OptimizerKind kind) {
  const auto& all = optimizer_kinds();
  return *std::ranges::find(all, kind, &OptimizerKindEntry::kind);
}

}  // namespace longspan
