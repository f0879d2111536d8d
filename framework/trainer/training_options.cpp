#include "framework/trainer/training_options.h"

#include <algorithm>

#include "framework/core/format.h"

namespace longspan {
namespace {

bool has_end(ScheduleKind schedule) {
  return schedule != ScheduleKind::constant && schedule != ScheduleKind::inverse_sqrt;
}

void declare_schedule(OptionTable& table, TrainingOptions& options) {
  table.add("training.lr_scheduler.type",
            options.schedule,
            "learning rate schedule after the warm-up",
            {{"constant", ScheduleKind::constant},
             {"linear", ScheduleKind::linear},
             {"cosine", ScheduleKind::cosine},
             {"inverse_sqrt", ScheduleKind::inverse_sqrt},
             {"warmup_stable_decay", ScheduleKind::warmup_stable_decay}});
  table.add("training.learning_rate", options.learning_rate, "peak learning rate", at_least(0.0));
  table.add(
      "training.lr_scheduler.min_lr",
      options.end_learning_rate,
      "learning rate at the end of the schedule, after the last update",
      at_least(0.0),
      only_with(is("training.lr_scheduler.type", {"linear", "cosine", "warmup_stable_decay"})));
  table.add("training.lr_scheduler.warmup_steps",
            options.warmup,
            "number of warm-up updates to the peak learning rate",
            at_least(0));
  table.add("training.lr_scheduler.warmup_init_lr",
            options.warmup_learning_rate,
            "initial learning rate of the warm-up",
            at_least(0.0),
            only_with(is_above("training.lr_scheduler.warmup_steps", 1)));
  table.add(
      "training.lr_scheduler.total_steps",
      options.schedule_steps,
      "number of updates of the schedule, including the warm-up; none: training.max_steps",
      at_least(1),
      only_with(is("training.lr_scheduler.type", {"linear", "cosine", "warmup_stable_decay"})));
  table.add(
      "training.lr_scheduler.after_end",
      options.schedule_end,
      "learning rate after training.lr_scheduler.total_steps: constant "
      "(training.lr_scheduler.min_lr) or restart (decay from the peak again). Ignored unless "
      "training.lr_scheduler.total_steps is below training.max_steps",
      {{"constant", ScheduleEnd::hold}, {"restart", ScheduleEnd::restart}},
      only_with(is("training.lr_scheduler.type", {"linear", "cosine", "warmup_stable_decay"})));
  table.add(
      "training.lr_scheduler.decay_steps",
      options.decay_steps,
      "number of updates of the final decay; none: a fifth of the schedule. To decay from step N, "
      "resume from it in another run.output_dir with training.max_steps N + D and this key at D",
      at_least(0),
      only_with(is("training.lr_scheduler.type", {"warmup_stable_decay"})));
  table.add("training.lr_scheduler.decay_type",
            options.decay_shape,
            "shape of the final decay: linear, or 1-sqrt, 1 - sqrt(fraction done)",
            {{"linear", DecayType::linear}, {"1-sqrt", DecayType::square_root}},
            only_with(is("training.lr_scheduler.type", {"warmup_stable_decay"})));
  table.warn("training.lr_scheduler.after_end", [&options]() -> std::string {
    return has_end(options.schedule) && options.scheduled_updates() >= options.steps
               ? "training.lr_scheduler.total_steps is not below training.max_steps"
               : "";
  });
}

// Checks combinations of schedules and optimizers.
void declare_pairs(OptionTable& table, const TrainingOptions& options) {
  table.check(
      {"training.lr_scheduler.decay_steps", "training.lr_scheduler.warmup_steps"},
      [&options]() -> std::string {
        const std::int64_t decay = options.decaying_updates(), all = options.scheduled_updates();
        if (options.schedule != ScheduleKind::warmup_stable_decay || options.warmup + decay <= all)
          return "";
        return fmt::format(
            "training.lr_scheduler.decay_steps: expected at most the {} of the schedule "
            "together with training.lr_scheduler.warmup_steps = {}, found {}",
            pluralize(all, "update"),
            options.warmup,
            decay);
      });
  table.check(
      {"training.lr_scheduler.min_lr", "training.learning_rate"}, [&options]() -> std::string {
        if (!has_end(options.schedule) || options.end_learning_rate <= options.learning_rate)
          return "";
        return fmt::format(
            "training.lr_scheduler.min_lr: expected at most training.learning_rate = {:g}, "
            "found {:g}",
            options.learning_rate,
            options.end_learning_rate);
      });
  const auto relative = [&options]() -> std::string {
    const OptimizerOptions& optimizer = options.optimizer;
    return optimizer.kind == OptimizerKind::adafactor && optimizer.adafactor.relative_step
               ? "training.optimizer.adafactor.relative_step replaces the schedule"
               : "";
  };
  for (const char* const key : {"training.learning_rate",
                                "training.lr_scheduler.min_lr",
                                "training.lr_scheduler.warmup_init_lr",
                                "training.lr_scheduler.type"})
    table.warn(key, relative);
}

void declare_start(OptionTable& table, InitFromOptions& options) {
  constexpr const char* vocabulary_key = "training.init_from.resize_vocab";
  constexpr const char* reinitialize_key = "training.init_from.reinitialize";
  constexpr const char* changed_key = "training.init_from.allow_config_changes";
  table.add("training.init_from.path",
            options.path,
            "run directory (its newest valid checkpoint) or checkpoint whose weights initialize a "
            "new run; empty: random initialization by run.seed. Ignored once the run has a "
            "checkpoint");
  table.add(vocabulary_key,
            options.resize_vocab,
            "vocabulary different from that of training.init_from.path: embedding and output rows "
            "of common ids (for char, common characters) are copied, the others initialized "
            "randomly; false: the vocabulary must be the same",
            only_with(is_set("training.init_from.path")));
  table.add(reinitialize_key,
            options.reinitialize,
            "parameters, by name or prefix, that are initialized randomly instead of loaded, such "
            "as [output] for another output vocabulary",
            only_with(is_set("training.init_from.path")));
  table.add(
      changed_key,
      options.changed,
      "keys or sections that may differ from those of training.init_from.path although they affect "
      "the weights, such as [model.rope] for longer sequences or [model.attention.layer_types]",
      only_with(is_set("training.init_from.path")));
}

}  // namespace

LrSchedule TrainingOptions::make_schedule() const {
  // The schedule reaches its end rate at the update after the last one, because an update with rate
  // 0 (the default) learns nothing. Without a warmup the first update has the full rate.
  return {.kind = schedule,
          .rate = learning_rate,
          .end_rate = end_learning_rate,
          .warmup_start = warmup_learning_rate,
          .warmup = std::max<std::int64_t>(warmup, 1),
          .total = scheduled_updates() + 1,
          .end = schedule_end,
          .decay = decaying_updates(),
          .shape = decay_shape};
}

void declare(OptionTable& table, TrainingOptions& options) {
  table.add(
      "training.max_steps", options.steps, "number of training steps of the run", at_least(1));
  table.add("training.gradient_accumulation_steps",
            options.accumulation,
            "number of micro-batches that a rank splits its batch into, which need less memory "
            "and give the same result",
            at_least(1));
  table.add("training.max_grad_norm",
            options.clip_norm,
            "maximum norm of the whole gradient, to which it is clipped; 0: no clipping",
            at_least(0.0));
  table.add("training.max_consecutive_skips",
            options.consecutive_skips,
            "number of consecutive skipped steps (non-finite loss or gradient) after which a run "
            "has diverged",
            at_least(1));
  table.add("training.max_rollbacks",
            options.skip_after_divergence,
            "maximum number of rollbacks of a diverged run to its last checkpoint, or its start; "
            "each skips the data from the last update to the divergence; 0: the run ends",
            at_least(0));
  table.add("parallel.bucket_cap_mb",
            options.bucket_megabytes,
            "size in MB of the buckets in which gradients are reduced over ranks",
            more_than(0.0));
  table.add("training.validation.interval",
            options.validation_every,
            "steps between validations; 0: only at the end",
            at_least(0));
  table.add("training.validation.num_decoded_examples",
            options.validation_decoded,
            "number of validation examples that are decoded greedily for BLEU, chrF, exact match "
            "and word error rate; 0: loss only",
            at_least(0),
            only_with(is("run.task", {"translation"})));
  table.add("training.label_smoothing",
            options.label_smoothing.share,
            "label smoothing: target probability spread over the other classes, in training only "
            "(Szegedy et al. 2016)",
            at_least(0.0),
            less_than(1.0));
  table.add("training.label_smoothing_style",
            options.label_smoothing.kind,
            "classes that share the smoothed probability: all, including the target (pytorch), or "
            "only the wrong ones (fairseq)",
            {{"pytorch", LabelSmoothingStyle::all_classes},
             {"fairseq", LabelSmoothingStyle::wrong_classes}},
            only_with(is_above("training.label_smoothing", 0)));
  declare(table, options.sampling);
  declare(table, options.policy);
  table.add(
      "training.validation.max_batches",
      options.validation_batches,
      "maximum number of batches per validation: the beginning of each stream of a text, or a "
      "fixed random sample of the examples by run.seed; 0: all",
      between(0, 1 << 26));
  declare_start(table, options.start_from);
  declare(table, options.tuning);
  table.warn("training.lora.rank", [&options]() -> std::string {
    return options.start_from.path.empty() ? "training.init_from.path is not set: frozen weights "
                                             "keep their random initialization"
                                           : "";
  });
  declare_schedule(table, options);
  declare(table, options.optimizer);
  declare_pairs(table, options);
  table.check({"training.lr_scheduler.warmup_steps", "training.lr_scheduler.total_steps"},
              [&options]() -> std::string {
                if (!options.schedule_steps || options.warmup <= *options.schedule_steps) return "";
                return fmt::format(
                    "training.lr_scheduler.warmup_steps: expected at most the {} of "
                    "the schedule, found {}",
                    pluralize(*options.schedule_steps, "update"),
                    options.warmup);
              });
  // Not an error: short trial runs override the number of steps.
  table.caution("training.lr_scheduler.warmup_steps", [&options]() -> std::string {
    if (options.schedule_steps || options.warmup <= options.steps) return "";
    return fmt::format(
        "expected at most training.max_steps = {}, found {}; training ends during the warm-up",
        options.steps,
        options.warmup);
  });
}

}  // namespace longspan
