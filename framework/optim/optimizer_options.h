// The keys training.optimizer.*.
#pragma once

#include <cstdint>
#include <optional>

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
  double largest_norm = 0;  // that a tensor's norm counts with in its trust ratio; 0: any
};

struct AdafactorOptions {
  bool relative_step = true;     // the step of the paper instead of a learning rate
  bool slow_start = false;       // relative steps grow by 1e-6 an update at first
  bool scale_by_weights = true;  // steps are relative to the root mean square of a tensor
  double least_scale = 1e-3;     // of that root mean square
  double largest_update = 1;     // root mean square of an update
  double decay_exponent = 0.8;   // beta2 of update t is 1 - t^-decay_exponent
};

// What an orthogonal matrix is multiplied by.
enum class MuonScale : std::uint8_t { adam, spectral };

struct MuonOptions {
  std::int64_t iterations = 5;
  MuonScale scale = MuonScale::adam;
};

// What is not set is what the kind's authors take.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  std::optional<double> beta1 = {};
  std::optional<double> beta2 = {};
  std::optional<double> epsilon = {};
  double weight_decay = 0;
  std::optional<double> momentum = {};
  std::optional<bool> nesterov = {};
  double grad_clip = 0;  // adagrad: the largest norm of one tensor's gradient; 0: any
  LambOptions lamb = {};
  AdafactorOptions adafactor = {};
  MuonOptions muon = {};
};

// What is set and the kind does not read is a warning of the table.
void declare(OptionTable& table, OptimizerOptions& options);

}  // namespace longspan
