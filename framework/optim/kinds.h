// Registry of optimizers by type.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {

struct OptimizerKindEntry {
  OptimizerKind kind = OptimizerKind::adamw;
  std::string name;                // value of training.optimizer.type
  std::vector<std::string> reads;  // keys below training.optimizer
  std::unique_ptr<OptimizerRule> (*make)(const OptimizerOptions&, const Parameters&) = nullptr;
  // Whether training computes with weights other than the stored ones: see Parameters.
  bool separate_masters = false;
};

const std::vector<OptimizerKindEntry>& optimizer_kinds();
const OptimizerKindEntry& entry_of(OptimizerKind kind);

// Factories, each in a file of its own.
std::unique_ptr<OptimizerRule> make_adam(const OptimizerOptions&, const Parameters&);
std::unique_ptr<OptimizerRule> make_sgd(const OptimizerOptions&, const Parameters&);
std::unique_ptr<OptimizerRule> make_lamb(const OptimizerOptions&, const Parameters&);
std::unique_ptr<OptimizerRule> make_adafactor(const OptimizerOptions&, const Parameters&);
std::unique_ptr<OptimizerRule> make_adagrad(const OptimizerOptions&, const Parameters&);
std::unique_ptr<OptimizerRule> make_lion(const OptimizerOptions&, const Parameters&);
std::unique_ptr<OptimizerRule> make_muon(const OptimizerOptions&, const Parameters&);
std::unique_ptr<OptimizerRule> make_schedule_free(const OptimizerOptions&, const Parameters&);

}  // namespace longspan
