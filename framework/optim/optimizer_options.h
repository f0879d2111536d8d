// Configuration keys training.optimizer.*.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/optim/optimizer_rule.h"
#include "framework/options/options.h"

namespace longspan {

enum class OptimizerKind : std::uint8_t {
  adamw,
  adam,
  sgd,
  lamb,
  adafactor,
  adagrad,
  radam,
  lion,
  muon,
  schedule_free
};

struct LambOptions {
  bool bias_correction = true;
  double max_weight_norm = 0;  // maximum tensor norm in the trust ratio; 0: unlimited
};

struct AdafactorOptions {
  bool relative_step = true;      // the relative step size of the paper replaces the learning rate
  bool slow_start = false;        // relative steps start small and grow by 1e-6 per update
  bool scale_by_weights = true;   // steps are relative to the root mean square of a tensor
  double min_scale = 1e-3;        // lower bound of that root mean square
  double clipping_threshold = 1;  // maximum root mean square of an update
  double decay_exponent = 0.8;    // beta2 of update t is 1 - t^-decay_exponent
};

// Scale of an orthogonalized update.
enum class MuonScale : std::uint8_t { adam, spectral };

struct MuonOptions {
  std::int64_t iterations = 5;
  MuonScale scale = MuonScale::adam;
};

// Unset options have the defaults of the optimizer's authors.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  std::optional<double> beta1 = {};
  std::optional<double> beta2 = {};
  std::optional<double> epsilon = {};
  double weight_decay = 0;
  std::optional<double> momentum = {};
  std::optional<bool> nesterov = {};
  double grad_clip = 0;  // adagrad: maximum gradient norm per tensor; 0: unlimited
  LambOptions lamb = {};
  AdafactorOptions adafactor = {};
  MuonOptions muon = {};
};

// The table warns about set keys that the optimizer type does not read.
void declare(OptionTable& table, OptimizerOptions& options);

// Registry of optimizers by type.
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
