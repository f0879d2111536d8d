#include "framework/optim/optimizer_options.h"

#include <algorithm>

namespace longspan {

namespace {

const std::string section = "training.optimizer.";

// Returns whether an optimizer type reads the key; `reads` lists its name or "kind.*".
bool reads(const OptimizerKindEntry& entry, std::string_view key) {
  return std::ranges::any_of(entry.reads, [&](const std::string& read) {
    return read.ends_with('*') ? key.starts_with(read.substr(0, read.size() - 1)) : key == read;
  });
}

// Returns the condition that the optimizer type reads the key.
Constraint only_where_read(std::string_view key) {
  std::vector<std::string> readers;
  for (const OptimizerKindEntry& entry : optimizer_kinds())
    if (reads(entry, key)) readers.push_back(entry.name);
  require(!readers.empty(), "no optimizer reads {}", key);
  return only_with(is(section + "type", readers));
}

void declare_shared(OptionTable& table, OptimizerOptions& options) {
  table.add(
      section + "type",
      options.kind,
      "optimizer: adamw, adam, sgd, lamb, adafactor, adagrad, radam, lion, muon (hidden matrices "
      "only, adamw for the rest) or schedule_free_adamw (an average of the weights is measured "
      "and saved)",
      {{"adamw", OptimizerKind::adamw},
       {"adam", OptimizerKind::adam},
       {"sgd", OptimizerKind::sgd},
       {"lamb", OptimizerKind::lamb},
       {"adafactor", OptimizerKind::adafactor},
       {"adagrad", OptimizerKind::adagrad},
       {"radam", OptimizerKind::radam},
       {"lion", OptimizerKind::lion},
       {"muon", OptimizerKind::muon},
       {"schedule_free_adamw", OptimizerKind::schedule_free}},
      value_needs("schedule_free_adamw", is("training.lr_scheduler.type", {"constant"})));
  table.add(section + "beta1",
            options.beta1,
            "decay of the first moment; none: 0.9, with adafactor no first moment",
            at_least(0.0),
            less_than(1.0),
            only_where_read("beta1"));
  table.add(section + "beta2",
            options.beta2,
            "decay of the second moment, or of lion's moment after an update; none: 0.999, with "
            "lion 0.99, with muon 0.95",
            at_least(0.0),
            less_than(1.0),
            only_where_read("beta2"));
  table.add(section + "eps",
            options.epsilon,
            "epsilon added to the denominator, with adafactor to squared gradients; none: 1e-8, "
            "with lamb 1e-6, with adagrad 1e-10, with adafactor 1e-30",
            more_than(0.0),
            only_where_read("eps"));
  table.add(section + "weight_decay",
            options.weight_decay,
            "weight decay of matrices: part of the gradient with adam, sgd and adagrad, part of "
            "the update direction with lamb, otherwise decoupled",
            at_least(0.0));
  table.add(section + "momentum",
            options.momentum,
            "momentum; none: 0.9 for sgd, 0.95 for muon",
            at_least(0.0),
            less_than(1.0),
            only_where_read("momentum"));
  table.add(section + "nesterov",
            options.nesterov,
            "Nesterov momentum; none: true for muon, false for sgd",
            only_where_read("nesterov"));
}

void declare_lamb(OptionTable& table, OptimizerOptions& options) {
  table.add(section + "lamb.bias_correction",
            options.lamb.bias_correction,
            "bias correction of the moments",
            only_where_read("lamb.bias_correction"));
  table.add(section + "lamb.max_weight_norm",
            options.lamb.max_weight_norm,
            "maximum weight norm of a tensor in the trust ratio; 0: unlimited",
            at_least(0.0),
            only_where_read("lamb.max_weight_norm"));
}

void declare_adafactor(OptionTable& table, OptimizerOptions& options) {
  AdafactorOptions& adafactor = options.adafactor;
  const std::string prefix = section + "adafactor.";
  table.add(prefix + "relative_step",
            adafactor.relative_step,
            "step size min(0.01, 1 / sqrt(t)) at update t, instead of training.learning_rate and "
            "training.lr_scheduler.type",
            only_where_read("adafactor.relative_step"));
  table.add(prefix + "warmup_init",
            adafactor.slow_start,
            "relative steps of at most 1e-6 t instead of 0.01",
            only_where_read("adafactor.warmup_init"));
  table.add(prefix + "scale_parameter",
            adafactor.scale_by_weights,
            "multiplication of steps by the root mean square of each tensor",
            only_where_read("adafactor.scale_parameter"));
  table.add(prefix + "min_parameter_scale",
            adafactor.min_scale,
            "lower bound of the root mean square in training.optimizer.adafactor.scale_parameter",
            at_least(0.0),
            only_where_read("adafactor.min_parameter_scale"));
  table.add(prefix + "clip_threshold",
            adafactor.clipping_threshold,
            "root mean square to which a tensor's update is clipped",
            more_than(0.0),
            only_where_read("adafactor.clip_threshold"));
  table.add(prefix + "decay_rate",
            adafactor.decay_exponent,
            "exponent r of the second moment's decay 1 - t^-r at update t",
            more_than(0.0),
            only_where_read("adafactor.decay_rate"));
}

void declare_muon(OptionTable& table, OptimizerOptions& options) {
  table.add(section + "muon.ns_steps",
            options.muon.iterations,
            "number of Newton-Schulz iterations",
            between(1, 100),
            only_where_read("muon.ns_steps"));
  table.add(section + "muon.adjust_lr_fn",
            options.muon.scale,
            "scale of the orthogonalized update: match_rms_adamw, 0.2 sqrt(max(rows, columns)), "
            "which suits the learning rate of adamw; or original, sqrt(max(1, rows / columns))",
            {{"match_rms_adamw", MuonScale::adam}, {"original", MuonScale::spectral}},
            only_where_read("muon.adjust_lr_fn"));
}

}  // namespace

void declare(OptionTable& table, OptimizerOptions& options) {
  declare_shared(table, options);
  declare_lamb(table, options);
  declare_adafactor(table, options);
  declare_muon(table, options);
  table.add(section + "adagrad.grad_clip",
            options.grad_clip,
            "maximum gradient norm per tensor, by which its step is reduced (adaptive span: 0.03); "
            "0: unlimited",
            at_least(0.0),
            only_where_read("adagrad.grad_clip"));
}

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
