#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/core/dtype.h"
#include "framework/core/format.h"
#include "framework/modeling/heads.h"
#include "framework/rl/rollouts.h"
#include "framework/tasks/environment_task.h"
#include "framework/tasks/example_data.h"
#include "framework/tasks/registry.h"

namespace longspan {
namespace {

// Episode statistics, as sums that add over ranks.
struct PlayedSums {
  double reward = 0;
  double episodes = 0;
  double successes = 0;
  double entropy = 0;
  double actions = 0;
};

Measurement played_measurement(const PlayedSums& sums) {
  // Rewards of NaN weights are meaningless.
  const double entropy = clear_nan_sign(sums.entropy / sums.actions);
  const double reward = std::isfinite(entropy) ? sums.reward / sums.episodes : entropy;
  const double success = percent(sums.successes, sums.episodes);
  return {.metric_values = {{"episode_reward_mean", reward, "per episode"},
                            {"success_rate", success, "percent"},
                            {"policy_entropy", entropy, "nats per action"},
                            {.name = "episodes", .value = sums.episodes, .is_count = true}},
          .text = fmt::format("mean episode reward {:.4f}, success rate {:.2f}% of {}, "
                              "policy entropy {:.4f}",
                              reward,
                              success,
                              pluralize(std::llround(sums.episodes), "episode"),
                              entropy)};
}

// Runs the first `each` episodes of this rank's rows.
PlayedSums play(const Model& model,
                VectorEnv& lives,
                std::int64_t segment,
                std::int64_t each,
                const std::function<void(std::size_t)>& told) {
  PlayedSums sums;
  IncrementalReader reader(model, segment);
  const auto is_done = [each](const EnvState& life) { return life.episode >= each; };
  while (!std::ranges::all_of(lives.rows(), is_done)) {
    const std::vector<ActionSample> choices = lives.choose(reader.read(lives.observations()));
    const std::vector<EnvStep> outcomes = lives.step(choices);
    for (std::size_t row = 0; row < outcomes.size(); ++row) {
      const EnvState& life = lives.rows()[row];
      if (is_done(life)) continue;
      sums.entropy += choices[row].entropy;
      sums.actions += 1;
      if (outcomes[row].ending == Termination::none) continue;
      sums.reward += life.total;
      sums.episodes += 1;
      sums.successes += lives.environment().succeeded(life.now) ? 1 : 0;
    }
    if (told) told(static_cast<std::size_t>(sums.episodes));
    lives.reset_done(outcomes);
  }
  return sums;
}

// Collective. `most`: batches, as training.validation.max_batches.
Measurement measure(const Environment& environment,
                    const Model& model,
                    const DataOptions& data,
                    std::int64_t most,
                    const EvaluateRequest* request = nullptr) {
  const ProcessMesh& mesh = model.parameters().mesh();
  VectorEnv lives(
      {.environment = environment,
       .rows = streams_of_rank(
           data.batch, mesh.data_coordinate(), mesh.data.size(), "data.global_batch_size"),
       .episodes = validation_episodes(),
       .actions = Random(1).child("validation actions"),
       .greedy = data.rollouts.greedy,
       .host = model.parameters().device().host()});
  const std::int64_t each = episodes_of(environment, data.segment, most);
  std::function<void(std::size_t)> told;
  if (request)
    told = progress(request->say,
                    "episodes",
                    static_cast<std::size_t>(each) * lives.rows().size(),
                    request->progress_interval);
  PlayedSums sums = play(model, lives, data.segment, each, told);
  if (mesh.tensor.rank() != 0 || mesh.context.rank() != 0) sums = {};
  const Tensor all = Tensor::from<double>(
      std::vector<double>{sums.reward, sums.episodes, sums.successes, sums.entropy, sums.actions},
      {5},
      Device::cpu(),
      MemoryTag::workspace);
  mesh.world.all_reduce(all, Reduction::sum);
  const auto found = all.span<double>();
  return played_measurement({found[0], found[1], found[2], found[3], found[4]});
}

class Reinforcement : public EnvironmentTask {
 public:
  explicit Reinforcement(const TaskContext& setting)
      : EnvironmentTask(setting),
        data_(setting.data),
        mesh_(setting.mesh),
        host_(setting.host),
        random_(setting.seed),
        validation_batches_(setting.validation_batches) {}

  std::unique_ptr<BatchSource> source() const override {
    throw Failure("the batches of run.task: reinforcement_learning require a model");
  }
  std::unique_ptr<BatchSource> source_by(const Model& model) const override {
    const StreamRange rows = streams_of_rank(
        data_.batch, mesh_.data_coordinate(), mesh_.data.size(), "data.global_batch_size");
    return std::make_unique<RolloutSource>(
        RolloutContext{.lives = {.environment = environment(),
                                 .rows = rows,
                                 .episodes = random_.child("episodes"),
                                 .actions = random_.child("actions"),
                                 .host = host_},
                       .environments = data_.batch,
                       .segment = data_.segment,
                       .options = data_.rollouts,
                       .staggered = true},
        model);
  }
  std::string overview() const override {
    return fmt::format("{}: at most {} per episode, {}, rollouts of {} with {} of {}",
                       environment().description,
                       pluralize(environment().steps, "step"),
                       pluralize(data_.batch, "environment"),
                       pluralize(data_.segment, "step"),
                       pluralize(data_.rollouts.epochs, "epoch"),
                       pluralize(data_.rollouts.minibatches, "minibatch", "minibatches"));
  }

 private:
  Measurement measured(const Environment& in, const Model& model) const override {
    return measure(in, model, data_, validation_batches_);
  }

  DataOptions data_;
  ProcessMesh mesh_;
  Device host_;
  Random random_;
  std::int64_t validation_batches_;
};

// One minibatch.
Batch dry_episodes(const MetaBatch& wanted) {
  const StreamRange streams = streams_of_rank(wanted.data.batch,
                                              wanted.mesh.data_coordinate(),
                                              wanted.mesh.data.size(),
                                              "data.global_batch_size");
  const std::int64_t groups = wanted.data.rollouts.minibatches;
  const Shape shape = {streams.count() / groups, wanted.segments * wanted.data.segment};
  Batch batch;
  const auto made = [&](const Shape& of, DType dtype) {
    return Tensor::empty(of, dtype, wanted.host, MemoryTag::workspace);
  };
  for (const char* name : {"tokens", "previous_action", "actions", "episodes"})
    batch.fields[name] = made(shape, DType::i64);
  for (const char* name : {"reward", "log_probabilities", "advantages", "returns"})
    batch.fields[name] = made(shape, DType::f64);
  batch.fields["earlier"] = made({shape[0]}, DType::i64);
  batch.first_row = streams.begin / groups;
  batch.resets_state = wanted.resets_state;
  batch.counts = {{"tokens", shape.elements()}, {"rows", shape[0]}};
  return batch;
}

}  // namespace

TaskSpec reinforcement_learning_task() {
  TaskSpec kind = environment_task("reinforcement_learning");
  kind.documentation =
      "reinforcement learning in an environment by PPO with generalized advantage estimation; "
      "data.train and data.validation describe the environment: t_maze, memory_maze, numpad or "
      "associative_recall, with its parameters";
  kind.is_policy = true;
  kind.readout = policy_head();
  kind.open = [](const TaskContext& setting) -> std::unique_ptr<Task> {
    return std::make_unique<Reinforcement>(setting);
  };
  kind.meta_batch = dry_episodes;
  kind.goals = {{"episode_reward_mean"}, {"success_rate"}};
  kind.words = [](const DataOptions& data) -> BatchDescription {
    return {fmt::format(
                "{} of {}", pluralize(data.segment, "step"), pluralize(data.batch, "environment")),
            "data.seq_length, data.global_batch_size"};
  };
  kind.evaluate = [](const EvaluateRequest& request) {
    return measure(environment_of(request), request.model, request.data, 0, &request);
  };
  return kind;
}

}  // namespace longspan
