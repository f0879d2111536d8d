#include "framework/optim/optimizer_options.h"

#include <algorithm>

#include "framework/optim/kinds.h"

namespace longspan {
namespace {

const std::string section = "training.optimizer.";

// Whether a kind reads the key, which `reads` says by its name or by "kind.*".
bool reads(const OptimizerKindEntry& entry, std::string_view key) {
  return std::ranges::any_of(entry.reads, [&](const std::string& read) {
    return read.ends_with('*') ? key.starts_with(read.substr(0, read.size() - 1)) : key == read;
  });
}

void warn_where_unread(OptionTable& table, const OptimizerOptions& options, std::string key) {
  table.warn(section + key, [&options, key]() -> std::string {
    const OptimizerKindEntry& entry = entry_of(options.kind);
    return reads(entry, key)
               ? ""
               : fmt::format("training.optimizer.type is {}, which does not read it", entry.name);
  });
}

void declare_shared(OptionTable& table, OptimizerOptions& options) {
  table.add(
      section + "type",
      options.kind,
      "how weights are updated: adamw and adam; sgd; lamb, whose steps are as long as each "
      "tensor; adafactor, whose state is small; adagrad; radam; lion; muon, which makes the "
      "steps of hidden matrices orthogonal and leaves all else to adamw; schedule_free_adamw, "
      "adamw that measures and saves an average of its weights",
      {{"adamw", OptimizerKind::adamw},
       {"adam", OptimizerKind::adam},
       {"sgd", OptimizerKind::sgd},
       {"lamb", OptimizerKind::lamb},
       {"adafactor", OptimizerKind::adafactor},
       {"adagrad", OptimizerKind::adagrad},
       {"radam", OptimizerKind::radam},
       {"lion", OptimizerKind::lion},
       {"muon", OptimizerKind::muon},
       {"schedule_free_adamw", OptimizerKind::schedule_free}});
  table.add(section + "beta1",
            options.beta1,
            "decay of the first moment; none: 0.9, and no first moment with adafactor",
            at_least(0.0),
            less_than(1.0));
  table.add(section + "beta2",
            options.beta2,
            "decay of the second moment, of lion's only one after an update; none: 0.999, with "
            "lion 0.99, with muon 0.95",
            at_least(0.0),
            less_than(1.0));
  table.add(section + "eps",
            options.epsilon,
            "added to the denominator, with adafactor to squares; none: 1e-8, with lamb 1e-6, with "
            "adagrad 1e-10, with adafactor 1e-30",
            more_than(0.0));
  table.add(section + "weight_decay",
            options.weight_decay,
            "decay of matrices: added to the gradient with adam, sgd and adagrad, part of the "
            "direction with lamb, decoupled otherwise",
            at_least(0.0));
  table.add(section + "momentum",
            options.momentum,
            "of sgd and muon; none: 0.9 and 0.95",
            at_least(0.0),
            less_than(1.0));
  table.add(section + "nesterov",
            options.nesterov,
            "whether sgd and muon look ahead along their momentum; none: muon does");
}

void declare_lamb(OptionTable& table, OptimizerOptions& options) {
  table.add(section + "lamb.bias_correction",
            options.lamb.bias_correction,
            "whether moments are corrected for having begun at 0");
  table.add(section + "lamb.max_weight_norm",
            options.lamb.largest_norm,
            "with which the norm of a tensor counts at most in the length of its step; 0: any",
            at_least(0.0));
}

void declare_adafactor(OptionTable& table, OptimizerOptions& options) {
  AdafactorOptions& adafactor = options.adafactor;
  const std::string prefix = section + "adafactor.";
  table.add(prefix + "relative_step",
            adafactor.relative_step,
            "the step of update t is the smaller of 0.01 and 1 / sqrt(t), whatever "
            "training.learning_rate and training.lr_scheduler.type are");
  table.add(prefix + "warmup_init",
            adafactor.slow_start,
            "relative steps begin with 1e-6 t instead of 0.01");
  table.add(prefix + "scale_parameter",
            adafactor.scale_by_weights,
            "steps are multiplied by the root mean square of each tensor");
  table.add(prefix + "min_parameter_scale",
            adafactor.least_scale,
            "that root mean square counts as at least this",
            at_least(0.0));
  table.add(prefix + "clip_threshold",
            adafactor.largest_update,
            "root mean square to which a tensor's update is clipped",
            more_than(0.0));
  table.add(prefix + "decay_rate",
            adafactor.decay_exponent,
            "the decay of the second moment at update t is 1 - t^-decay_rate",
            more_than(0.0));
}

void declare_muon(OptionTable& table, OptimizerOptions& options) {
  table.add(section + "muon.ns_steps",
            options.muon.iterations,
            "of Newton and Schulz, by which a matrix becomes orthogonal",
            between(1, 100));
  table.add(section + "muon.adjust_lr_fn",
            options.muon.scale,
            "of the orthogonal matrix: match_rms_adamw, 0.2 sqrt(max(rows, columns)), which "
            "changes elements as much as adamw does, so that one learning rate is right for both; "
            "original, sqrt(max(1, rows / columns))",
            {{"match_rms_adamw", MuonScale::adam}, {"original", MuonScale::spectral}});
}

}  // namespace

void declare(OptionTable& table, OptimizerOptions& options) {
  declare_shared(table, options);
  declare_lamb(table, options);
  declare_adafactor(table, options);
  declare_muon(table, options);
  table.add(section + "adagrad.grad_clip",
            options.grad_clip,
            "largest norm of the gradient of each tensor alone, by which its step becomes shorter "
            "(adaptive span: 0.03); 0: any",
            at_least(0.0));
  for (const char* const key : {"beta1",
                                "beta2",
                                "eps",
                                "momentum",
                                "nesterov",
                                "lamb.bias_correction",
                                "lamb.max_weight_norm",
                                "adafactor.relative_step",
                                "adafactor.warmup_init",
                                "adafactor.scale_parameter",
                                "adafactor.min_parameter_scale",
                                "adafactor.clip_threshold",
                                "adafactor.decay_rate",
                                "muon.ns_steps",
                                "muon.adjust_lr_fn",
                                "adagrad.grad_clip"})
    warn_where_unread(table, options, key);
}

}  // namespace longspan
