#include "framework/config/run_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/format.h"
#include "framework/optim/optimizer_options.h"

namespace longspan {

std::unique_ptr<Model> RunConfig::make_model(const ModelBuildOptions& setting) const {
  return std::make_unique<Model>(setting, body, task_kind().readout);
}

ModelBuildOptions model_setting(const RunConfig& settings,
                                const DataSizes& ids,
                                const ProcessMesh& mesh,
                                const Device& device) {
  return {
      .vocabulary = ids.vocabulary,
      .classes = ids.classes,
      .is_policy = settings.task_kind().is_policy,
      .segment = settings.longest(),
      .documents_apart = settings.task_kind().reads_streams && settings.data.reset_attention_mask,
      .compute = settings.precision.compute,
      .device = device,
      .mesh = mesh,
      .random = Random(static_cast<std::uint64_t>(settings.run.seed)).child("weights"),
      .memory = settings.memory,
      .sharing = {.zero = static_cast<int>(settings.parallel.zero),
                  .bucket_megabytes = settings.training.bucket_megabytes},
      .separate_masters = entry_of(settings.training.optimizer.kind).separate_masters,
      .tuning = settings.training.tuning,
      .smoothing = settings.training.label_smoothing,
      .sampling = settings.training.sampling,
      .sequence_level = settings.data.sequence_level,
      .policy = settings.training.policy,
      .image = ids.image,
      .steps = settings.training.scheduled_updates()};
}

std::int64_t RunConfig::longest() const {
  return task_kind().reads_streams ? data.segment : data.buckets.max_columns_length();
}

std::vector<ValidationMetric> validation_metrics(const RunConfig& settings) {
  const TaskSpec& task = settings.task_kind();
  std::vector<ValidationMetric> goals = task.goals;
  if (settings.training.validation_decoded > 0)
    goals.insert(goals.end(), task.decoded_goals.begin(), task.decoded_goals.end());
  return goals;
}

std::string validate_best_metric(const RunConfig& settings) {
  const std::string& wanted = settings.checkpoint.keep_best;
  if (wanted.empty()) return "";
  if (settings.data.validation.empty())
    return fmt::format("checkpoint.best_metric: {} requires data.validation", wanted);
  if (wanted == "bits_per_byte" && settings.data.format == DataFormat::tokens)
    return "checkpoint.best_metric: bits_per_byte cannot be combined with data.format: tokens; set "
           "it to loss";
  const auto has = [&](const std::vector<ValidationMetric>& goals) {
    return std::ranges::any_of(goals,
                               [&](const ValidationMetric& goal) { return goal.figure == wanted; });
  };
  const std::vector<ValidationMetric> goals = validation_metrics(settings);
  if (has(goals)) return "";
  if (has(settings.task_kind().decoded_goals))
    return fmt::format(
        "checkpoint.best_metric: {} requires training.validation.num_decoded_examples; set it to "
        "the number of examples to decode",
        wanted);
  std::vector<std::string> names;
  for (const ValidationMetric& goal : goals) names.push_back(goal.figure);
  return fmt::format("checkpoint.best_metric: expected {} (run.task: {}), found {}",
                     fmt::join(names, ", "),
                     settings.task,
                     wanted);
}

std::string validate_samples(const RunConfig& settings) {
  const std::int64_t wanted = settings.metrics.samples;
  if (wanted == 0) return "";
  if (!settings.task_kind().has_samples)
    return fmt::format(
        "metrics.num_samples: expected 0, found {}: run.task: {} does not support samples",
        wanted,
        settings.task);
  if (settings.data.validation.empty())
    return fmt::format("metrics.num_samples: {} requires data.validation", wanted);
  return "";
}

std::string validate_batch(const RunConfig& settings, std::int64_t data_ranks) {
  if (!settings.task_kind().reads_streams) return "";
  if (settings.data.batch % data_ranks == 0) return "";
  return fmt::format(
      "data.global_batch_size: expected a multiple of parallel.data_parallel_size = {}, found {}",
      data_ranks,
      settings.data.batch);
}

std::string validate_minibatch(const RunConfig& settings, std::int64_t data_ranks) {
  const std::int64_t groups = settings.data.rollouts.minibatches;
  const std::int64_t environments = settings.data.batch / data_ranks;
  if (!settings.task_kind().is_policy || environments % groups == 0) return "";
  return fmt::format(
      "ppo.num_minibatches: expected a divisor of the {} per data rank "
      "(data.global_batch_size {} over {}), found {}",
      pluralize(environments, "environment"),
      settings.data.batch,
      pluralize(data_ranks, "data rank"),
      groups);
}

std::string validate_segment(const RunConfig& settings, std::int64_t context_ranks) {
  if (!settings.task_kind().reads_streams)
    return validate_context(settings.data.buckets, context_ranks);
  if (context_ranks == 1 || settings.data.segment % (2 * context_ranks) == 0) return "";
  return fmt::format(
      "data.seq_length: expected a multiple of 2 x parallel.context_parallel_size = {}, found {}",
      2 * context_ranks,
      settings.data.segment);
}

std::string validate_accumulation(const RunConfig& settings,
                                  std::optional<std::int64_t> data_ranks) {
  if (!settings.task_kind().reads_streams) return "";
  const std::int64_t groups =
      settings.task_kind().is_policy ? settings.data.rollouts.minibatches : 1;
  const std::int64_t streams = settings.data.batch / data_ranks.value_or(1) / groups;
  if (streams % settings.training.accumulation == 0) return "";
  if (!data_ranks)
    return fmt::format(
        "training.gradient_accumulation_steps: expected a divisor of data.global_batch_size = {}, "
        "found {}",
        settings.data.batch,
        settings.training.accumulation);
  return fmt::format(
      "training.gradient_accumulation_steps: expected a divisor of the {} per data rank "
      "(data.global_batch_size {} over {}), found {}",
      pluralize(streams, "sequence"),
      settings.data.batch,
      pluralize(*data_ranks, "data rank"),
      settings.training.accumulation);
}

void require_divisible(const RunConfig& settings, const MeshShape& mesh) {
  throw_if_error(validate_batch(settings, mesh.data));
  throw_if_error(validate_minibatch(settings, mesh.data));
  throw_if_error(validate_segment(settings, mesh.context));
  throw_if_error(validate_accumulation(settings, mesh.data));
}

}  // namespace longspan
