// The section `training` of a configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/modeling/policy_options.h"
#include "framework/modeling/scheduled_sampling.h"
#include "framework/nn/embedding.h"
#include "framework/nn/fine_tuning.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/schedule.h"
#include "framework/options/options.h"

namespace longspan {

// Source of a new run's weights.
struct InitFromOptions {
  ConfigPath path;            // directory of a run or of a step; empty: random initialization
  bool resize_vocab = false;  // the vocabularies may differ
  std::vector<std::string>
      reinitialize;                  // parameters, or prefixes of their names, to initialize again
  std::vector<std::string> changed;  // keys, or prefixes of them, that may differ from the source
};

struct TrainingOptions {
  std::int64_t steps = 1000;
  std::int64_t accumulation = 1;        // microbatches per step
  double clip_norm = 1;                 // 0: none
  std::int64_t consecutive_skips = 10;  // until the run counts as diverged
  std::int64_t skip_after_divergence = 0;
  double bucket_megabytes = 25;
  std::int64_t validation_every = 0;    // steps; 0: at the end only
  std::int64_t validation_batches = 0;  // 0: the whole file
  std::int64_t validation_decoded = 0;  // examples that each validation decodes and scores
  LabelSmoothing label_smoothing = {};
  ScheduledSampling sampling = {};
  PolicyOptions policy = {};
  InitFromOptions start_from;
  FineTuning tuning;
  OptimizerOptions optimizer;
  ScheduleKind schedule = ScheduleKind::cosine;
  ScheduleEnd schedule_end = ScheduleEnd::hold;
  double learning_rate = 2.5e-4;
  double end_learning_rate = 0;
  double warmup_learning_rate = 0;
  std::int64_t warmup = 0;
  std::optional<std::int64_t> schedule_steps;  // none: steps
  std::optional<std::int64_t> decay_steps;     // none: a fifth of the schedule
  DecayType decay_shape = DecayType::linear;

  std::int64_t scheduled_updates() const { return schedule_steps.value_or(steps); }
  std::int64_t decaying_updates() const { return decay_steps.value_or(scheduled_updates() / 5); }

  // Returns the schedule for the updates 1, 2, ... of a run. Its end rate follows the last update.
  LrSchedule make_schedule() const;
};

void declare(OptionTable& table, TrainingOptions& options);

}  // namespace longspan
