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

// Whose rows of the vocabulary a new run takes from weights that are there.
enum class StartVocabulary : std::uint8_t { same, grow };

// Where a new run's weights come from.
struct InitFromOptions {
  ConfigPath path;  // a run's directory or that of a step; empty: drawn from the seed
  StartVocabulary vocabulary = StartVocabulary::same;
  std::vector<std::string> anew;     // parameters, or what their names begin with
  std::vector<std::string> changed;  // keys, or what they begin with, that may be others than there
};

struct TrainingOptions {
  std::int64_t steps = 1000;
  std::int64_t accumulation = 1;        // parts in which a step's streams are worked through
  double clip_norm = 1;                 // 0: none
  std::int64_t consecutive_skips = 10;  // before the run has diverged
  std::int64_t skip_after_divergence = 0;
  double bucket_megabytes = 25;
  std::int64_t validation_every = 0;    // steps; 0: at the end only
  std::int64_t validation_batches = 0;  // 0: the whole file
  std::int64_t validation_decoded = 0;  // examples of which each validation judges what is made
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

  // That of the updates 1, 2, ... of a run. Its end rate follows the last update of the schedule.
  LrSchedule make_schedule() const;
};

void declare(OptionTable& table, TrainingOptions& options);

}  // namespace longspan
