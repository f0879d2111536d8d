#include "framework/trainer/training_options.h"

#include <algorithm>

namespace longspan {
namespace {

void declare_schedule(OptionTable& table, TrainingOptions& options) {
  table.add("training.lr_scheduler.type",
            options.schedule,
            "how the learning rate goes on after the warm-up",
            {{"constant", ScheduleKind::constant},
             {"linear", ScheduleKind::linear},
             {"cosine", ScheduleKind::cosine},
             {"inverse_sqrt", ScheduleKind::inverse_sqrt},
             {"warmup_stable_decay", ScheduleKind::warmup_stable_decay}});
  table.add(
      "training.learning_rate", options.learning_rate, "the highest learning rate", at_least(0.0));
  table.add("training.lr_scheduler.min_lr",
            options.end_learning_rate,
            "where schedules that fall to it end: the rate that would follow the last update",
            at_least(0.0));
  table.add("training.lr_scheduler.warmup_steps",
            options.warmup,
            "updates until the highest learning rate",
            at_least(0));
  table.add("training.lr_scheduler.warmup_init_lr",
            options.warmup_learning_rate,
            "where the warm-up begins",
            at_least(0.0));
  table.add("training.lr_scheduler.total_steps",
            options.schedule_steps,
            "updates of the schedule; none: training.max_steps",
            at_least(1));
  table.add("training.lr_scheduler.after_end",
            options.schedule_end,
            "after training.lr_scheduler.total_steps: training.lr_scheduler.min_lr from then on "
            "(constant), or the decay again from the highest rate (restart)",
            {{"constant", ScheduleEnd::hold}, {"restart", ScheduleEnd::restart}});
  table.add("training.lr_scheduler.decay_steps",
            options.decay_steps,
            "of warmup_stable_decay, the last updates of the schedule, in which the rate falls; "
            "before them it does not depend on the schedule's length: whoever resumes from step N "
            "(checkpoint.resume_from, with a run.output_dir of its own) with training.max_steps N "
            "+ D and training.lr_scheduler.decay_steps D lets the rate fall from there on; none: a "
            "fifth of the schedule",
            at_least(0));
  table.add("training.lr_scheduler.decay_type",
            options.decay_shape,
            "of that fall: linear, or 1-sqrt, by 1 - sqrt(the part that is done)",
            {{"linear", DecayType::linear}, {"1-sqrt", DecayType::square_root}});
  for (const char* const key :
       {"training.lr_scheduler.decay_steps", "training.lr_scheduler.decay_type"})
    table.warn(key, [&options]() -> std::string {
      return options.schedule == ScheduleKind::warmup_stable_decay
                 ? ""
                 : "training.lr_scheduler.type is not warmup_stable_decay";
    });
  const auto without_end = [&options]() -> std::string {
    const bool ends = options.schedule != ScheduleKind::constant &&
                      options.schedule != ScheduleKind::inverse_sqrt;
    return ends ? "" : "training.lr_scheduler.type is constant or inverse_sqrt, which has no end";
  };
  for (const char* const key :
       {"training.lr_scheduler.min_lr", "training.lr_scheduler.total_steps"})
    table.warn(key, without_end);
  table.warn("training.lr_scheduler.after_end", [&options, without_end]() -> std::string {
    const std::string reason = without_end();
    return reason.empty() && options.scheduled_updates() >= options.steps
               ? "training.lr_scheduler.total_steps is not below training.max_steps"
               : reason;
  });
  table.warn("training.lr_scheduler.warmup_init_lr", [&options]() -> std::string {
    return options.warmup > 1 ? "" : "training.lr_scheduler.warmup_steps is at most 1";
  });
}

// Schedules and optimizers that do not go together.
void declare_pairs(OptionTable& table, const TrainingOptions& options) {
  table.check(
      {"training.lr_scheduler.decay_steps", "training.lr_scheduler.warmup_steps"},
      [&options]() -> std::string {
        const std::int64_t decay = options.decaying_updates(), all = options.scheduled_updates();
        if (options.schedule != ScheduleKind::warmup_stable_decay || options.warmup + decay <= all)
          return "";
        return fmt::format(
            "training.lr_scheduler.decay_steps is {} and training.lr_scheduler.warmup_steps {}, "
            "together longer than the schedule of {} updates",
            decay,
            options.warmup,
            all);
      });
  table.check({"training.lr_scheduler.type", "training.optimizer.type"},
              [&options]() -> std::string {
                if (options.optimizer.kind != OptimizerKind::schedule_free ||
                    options.schedule == ScheduleKind::constant)
                  return "";
                return "training.lr_scheduler.type: with training.optimizer.type "
                       "schedule_free_adamw the average of the weights takes the place of a "
                       "falling rate; set it to constant (training.lr_scheduler.warmup_steps "
                       "remains)";
              });
  const auto relative = [&options]() -> std::string {
    const OptimizerOptions& optimizer = options.optimizer;
    return optimizer.kind == OptimizerKind::adafactor && optimizer.adafactor.relative_step
               ? "training.optimizer.adafactor.relative_step takes the place of a schedule"
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
  constexpr const char* anew_key = "training.init_from.reinitialize";
  constexpr const char* changed_key = "training.init_from.allow_config_changes";
  table.add("training.init_from.path",
            options.path,
            "a run's directory (its newest good step) or that of a step: where a new run takes its "
            "weights from, and nothing else; empty: they are drawn from run.seed. Without effect "
            "once the run has a checkpoint of its own");
  table.add(
      vocabulary_key,
      options.vocabulary,
      "false: the vocabulary must be that of training.init_from.path; true: rows of the embedding "
      "and the output are taken for the ids that both have, which for characters are the "
      "same characters, and drawn from run.seed for the others",
      {{"false", StartVocabulary::same}, {"true", StartVocabulary::grow}});
  table.add(
      anew_key,
      options.anew,
      "parameters, or what their names begin with, that training.init_from.path does not give: "
      "they are drawn from run.seed, as [output] is where another text is read out");
  table.add(changed_key,
            options.changed,
            "keys, or sections of them, that are meant to be others than those of "
            "training.init_from.path, though its weights were trained with those: [model.rope] for "
            "longer sequences, [model.attention.layer_types] for other kinds of it. Others that "
            "change what the weights mean are refused");
  const auto reason = [&options]() -> std::string {
    return options.path.empty() ? "there is no training.init_from.path" : "";
  };
  table.warn(vocabulary_key, reason);
  table.warn(anew_key, reason);
  table.warn(changed_key, reason);
}

}  // namespace

LrSchedule TrainingOptions::make_schedule() const {
  // The end rate is that of the update after the last one: it is 0 unless another is asked for, and
  // an update of that rate learns nothing. Without a warm-up the first update has the full rate.
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
  table.add("training.max_steps", options.steps, "steps of the whole run", at_least(1));
  table.add("training.gradient_accumulation_steps",
            options.accumulation,
            "parts in which a rank works through its streams: less memory, the same result",
            at_least(1));
  table.add("training.max_grad_norm",
            options.clip_norm,
            "largest norm of the whole gradient; 0: not clipped",
            at_least(0.0));
  table.add("training.max_consecutive_skips",
            options.consecutive_skips,
            "steps whose loss or gradient is not finite are skipped; after so many in a row the "
            "run has diverged",
            at_least(1));
  table.add("training.max_rollbacks",
            options.skip_after_divergence,
            "how often a run that has diverged goes back to its last checkpoint, or to its "
            "beginning, and on from there without the data on which it did: those of the last step "
            "that changed the weights and of the steps after it; 0: it ends",
            at_least(0));
  table.add("parallel.bucket_cap_mb",
            options.bucket_megabytes,
            "gradients are summed over ranks in pieces of this size",
            more_than(0.0));
  table.add("training.validation.interval",
            options.validation_every,
            "steps between validations; 0: only at the end",
            at_least(0));
  table.add(
      "training.validation.num_decoded_examples",
      options.validation_decoded,
      "with run.task: translation, the first so many lines of the validation data of which each "
      "validation makes the target too, greedily, and measures BLEU, chrF, exact match and word "
      "error rate; 0: the loss alone",
      at_least(0));
  table.add("training.label_smoothing",
            options.label_smoothing.share,
            "the share of a target's weight that is spread over the other classes in training "
            "(Szegedy et al. 2016); validation is without",
            at_least(0.0),
            less_than(1.0));
  table.add(
      "training.label_smoothing_style",
      options.label_smoothing.kind,
      "over all classes, the target included (pytorch), or over the wrong ones alone (fairseq)",
      {{"pytorch", LabelSmoothingStyle::all_classes},
       {"fairseq", LabelSmoothingStyle::wrong_classes}});
  table.warn("training.label_smoothing_style", [&options]() -> std::string {
    return options.label_smoothing.share > 0 ? "" : "training.label_smoothing is 0";
  });
  declare(table, options.sampling);
  declare(table, options.policy);
  table.add("training.validation.max_batches",
            options.validation_batches,
            "batches of a validation: of streams the first ones, of other data random examples by "
            "run.seed, the same ones each time; 0: the whole file",
            between(0, 1 << 26));
  declare_start(table, options.start_from);
  declare(table, options.tuning);
  table.warn("training.lora.rank", [&options]() -> std::string {
    return options.start_from.path.empty() ? "there is no training.init_from.path: what is not "
                                             "trained stays as run.seed draws it"
                                           : "";
  });
  declare_schedule(table, options);
  declare(table, options.optimizer);
  declare_pairs(table, options);
  table.check(
      {"training.lr_scheduler.warmup_steps", "training.lr_scheduler.total_steps"},
      [&options]() -> std::string {
        if (!options.schedule_steps || options.warmup <= *options.schedule_steps) return "";
        return fmt::format(
            "training.lr_scheduler.warmup_steps is {}, longer than the schedule of {} updates",
            options.warmup,
            *options.schedule_steps);
      });
  // No mistake: a trial of a few steps is set on top of a file.
  table.warn("training.lr_scheduler.warmup_steps", [&options]() -> std::string {
    if (options.schedule_steps || options.warmup <= options.steps) return "";
    return fmt::format(
        "training.max_steps is {}, so that the run ends before its warm-up of {} updates is over",
        options.steps,
        options.warmup);
  });
}

}  // namespace longspan
