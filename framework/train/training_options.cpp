#include "framework/train/training_options.h"

#include <algorithm>

namespace longspan {
namespace {

void declare_schedule(OptionTable& table, TrainingOptions& options) {
  table.add("training.schedule",
            options.schedule,
            "how the learning rate goes on after the warm-up",
            {{"constant", ScheduleKind::constant},
             {"linear", ScheduleKind::linear},
             {"cosine", ScheduleKind::cosine},
             {"inverse_sqrt", ScheduleKind::inverse_sqrt},
             {"warmup_stable_decay", ScheduleKind::warmup_stable_decay}});
  table.add(
      "training.learning_rate", options.learning_rate, "the highest learning rate", at_least(0.0));
  table.add("training.end_learning_rate",
            options.end_learning_rate,
            "where schedules that fall to it end: the rate that would follow the last update",
            at_least(0.0));
  table.add(
      "training.warmup", options.warmup, "updates until the highest learning rate", at_least(0));
  table.add("training.warmup_learning_rate",
            options.warmup_learning_rate,
            "where the warm-up begins",
            at_least(0.0));
  table.add("training.schedule_steps",
            options.schedule_steps,
            "updates of the schedule; none: training.steps",
            at_least(1));
  table.add(
      "training.schedule_end",
      options.schedule_end,
      "after training.schedule_steps: training.end_learning_rate from then on (hold), or the decay "
      "again from the highest rate (restart)",
      {{"hold", ScheduleEnd::hold}, {"restart", ScheduleEnd::restart}});
  table.add(
      "training.decay_steps",
      options.decay_steps,
      "of warmup_stable_decay, the last updates of the schedule, in which the rate falls; "
      "before them it does not depend on the schedule's length: whoever resumes from step N "
      "(checkpoint.resume, with a run.directory of its own) with training.steps N + D and "
      "training.decay_steps D lets the rate fall from there on; none: a fifth of the schedule",
      at_least(0));
  table.add("training.decay_shape",
            options.decay_shape,
            "of that fall: linear, or square_root, by 1 - sqrt(the part that is done)",
            {{"linear", DecayShape::linear}, {"square_root", DecayShape::square_root}});
  for (const char* const key : {"training.decay_steps", "training.decay_shape"})
    table.warn(key, [&options]() -> std::string {
      return options.schedule == ScheduleKind::warmup_stable_decay
                 ? ""
                 : "training.schedule is not warmup_stable_decay";
    });
  const auto without_end = [&options]() -> std::string {
    const bool ends = options.schedule != ScheduleKind::constant &&
                      options.schedule != ScheduleKind::inverse_sqrt;
    return ends ? "" : "training.schedule is constant or inverse_sqrt, which has no end";
  };
  for (const char* const key : {"training.end_learning_rate", "training.schedule_steps"})
    table.warn(key, without_end);
  table.warn("training.schedule_end", [&options, without_end]() -> std::string {
    const std::string reason = without_end();
    return reason.empty() && options.scheduled_updates() >= options.steps
               ? "training.schedule_steps is not below training.steps"
               : reason;
  });
  table.warn("training.warmup_learning_rate", [&options]() -> std::string {
    return options.warmup > 1 ? "" : "training.warmup is at most 1";
  });
}

// Schedules and optimizers that do not go together.
void declare_pairs(OptionTable& table, const TrainingOptions& options) {
  table.check({"training.decay_steps", "training.warmup"}, [&options]() -> std::string {
    const std::int64_t decay = options.decaying_updates(), all = options.scheduled_updates();
    if (options.schedule != ScheduleKind::warmup_stable_decay || options.warmup + decay <= all)
      return "";
    return fmt::format(
        "training.decay_steps is {} and training.warmup {}, together longer than the schedule of "
        "{} "
        "updates",
        decay,
        options.warmup,
        all);
  });
  table.check({"training.schedule", "training.optimizer.kind"}, [&options]() -> std::string {
    if (options.optimizer.kind != OptimizerKind::schedule_free ||
        options.schedule == ScheduleKind::constant)
      return "";
    return "training.schedule: with training.optimizer.kind schedule_free the average of the "
           "weights "
           "takes the place of a falling rate; set it to constant (training.warmup remains)";
  });
  const auto relative = [&options]() -> std::string {
    const OptimizerOptions& optimizer = options.optimizer;
    return optimizer.kind == OptimizerKind::adafactor && optimizer.adafactor.relative_step
               ? "training.optimizer.adafactor_relative_step takes the place of a schedule"
               : "";
  };
  for (const char* const key : {"training.learning_rate",
                                "training.end_learning_rate",
                                "training.warmup_learning_rate",
                                "training.schedule"})
    table.warn(key, relative);
}

void declare_start(OptionTable& table, StartOptions& options) {
  constexpr const char* vocabulary_key = "training.start_from_vocabulary";
  constexpr const char* anew_key = "training.start_from_anew";
  constexpr const char* changed_key = "training.start_from_changed";
  table.add("training.start_from",
            options.path,
            "a run's directory (its newest good step) or that of a step: where a new run takes its "
            "weights from, and nothing else; empty: they are drawn from run.seed. Without effect "
            "once the run has a checkpoint of its own");
  table.add(vocabulary_key,
            options.vocabulary,
            "same: the vocabulary must be that of training.start_from; grow: rows of the embedding "
            "and the output are taken for the ids that both have, which for characters are the "
            "same characters, and drawn from run.seed for the others",
            {{"same", StartVocabulary::same}, {"grow", StartVocabulary::grow}});
  table.add(anew_key,
            options.anew,
            "parameters, or what their names begin with, that training.start_from does not give: "
            "they are drawn from run.seed, as [output] is where another text is read out");
  table.add(changed_key,
            options.changed,
            "keys, or what they begin with, that are meant to be others than those of "
            "training.start_from, though its weights were trained with those: [model.rotary] for "
            "longer sequences, [model.attention] for other kinds of it. Others that change what "
            "the weights mean are refused");
  const auto reason = [&options]() -> std::string {
    return options.path.empty() ? "there is no training.start_from" : "";
  };
  table.warn(vocabulary_key, reason);
  table.warn(anew_key, reason);
  table.warn(changed_key, reason);
}

}  // namespace

Schedule TrainingOptions::make_schedule() const {
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
  table.add("training.steps", options.steps, "steps of the whole run", at_least(1));
  table.add("training.accumulation",
            options.accumulation,
            "parts in which a rank works through its streams: less memory, the same result",
            at_least(1));
  table.add("training.clip_norm",
            options.clip_norm,
            "largest norm of the whole gradient; 0: not clipped",
            at_least(0.0));
  table.add("training.skipped_in_a_row",
            options.skipped_in_a_row,
            "steps whose loss or gradient is not finite are skipped; after so many in a row the "
            "run has diverged",
            at_least(1));
  table.add("training.skip_after_divergence",
            options.skip_after_divergence,
            "how often a run that has diverged goes back to its last checkpoint, or to its "
            "beginning, and on from there without the data on which it did: those of the last step "
            "that changed the weights and of the steps after it; 0: it ends",
            at_least(0));
  table.add("training.bucket_megabytes",
            options.bucket_megabytes,
            "gradients are summed over ranks in pieces of this size",
            more_than(0.0));
  table.add("training.validation_every",
            options.validation_every,
            "steps between validations; 0: only at the end",
            at_least(0));
  table.add(
      "training.validation_decoded",
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
      "training.label_smoothing_over",
      options.label_smoothing.kind,
      "over all classes, the target included (PyTorch), or over the wrong ones alone (fairseq)",
      {{"all_classes", Smoothing::all_classes}, {"wrong_classes", Smoothing::wrong_classes}});
  table.warn("training.label_smoothing_over", [&options]() -> std::string {
    return options.label_smoothing.share > 0 ? "" : "training.label_smoothing is 0";
  });
  declare(table, options.sampling);
  declare(table, options.policy);
  table.add("training.validation_batches",
            options.validation_batches,
            "batches of a validation: of streams the first ones, of other data random examples by "
            "run.seed, the same ones each time; 0: the whole file",
            between(0, 1 << 26));
  declare_start(table, options.start_from);
  declare(table, options.tuning);
  table.warn("training.adapters.rank", [&options]() -> std::string {
    return options.start_from.path.empty()
               ? "there is no training.start_from: what is not trained stays as run.seed draws it"
               : "";
  });
  declare_schedule(table, options);
  declare(table, options.optimizer);
  declare_pairs(table, options);
  table.check({"training.warmup", "training.schedule_steps"}, [&options]() -> std::string {
    if (!options.schedule_steps || options.warmup <= *options.schedule_steps) return "";
    return fmt::format("training.warmup is {}, longer than the schedule of {} updates",
                       options.warmup,
                       *options.schedule_steps);
  });
  // No mistake: a trial of a few steps is set on top of a file.
  table.warn("training.warmup", [&options]() -> std::string {
    if (options.schedule_steps || options.warmup <= options.steps) return "";
    return fmt::format(
        "training.steps is {}, so that the run ends before its warm-up of {} updates is over",
        options.steps,
        options.warmup);
  });
}

}  // namespace longspan
