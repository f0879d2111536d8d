#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/core/dtype.h"
#include "framework/core/format.h"
#include "framework/data/episode_source.h"
#include "framework/modeling/heads.h"
#include "framework/tasks/environment_task.h"
#include "framework/tasks/example_data.h"
#include "framework/tasks/registry.h"

namespace longspan {
namespace {

// Episode statistics, as sums that add over ranks.
struct RecallSums {
  double nats = 0;
  double asked = 0;
  double right = 0;
  double episodes = 0;
  double solved = 0;  // episodes with all actions correct
};

// Tracks whether the current episodes are correct so far.
class RecallScores {
 public:
  void add(const Batch& batch, const Tensor& choices, RecallSums& sums) {
    const auto wanted = batch.field("targets").span<std::int64_t>();
    const auto chosen = choices.span<std::int64_t>();
    const auto rows = static_cast<std::size_t>(batch.rows());
    const std::size_t time = wanted.size() / rows;
    all_right_.resize(rows, true);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == ignored_target) continue;
      const bool is_right = chosen[i] == wanted[i];
      sums.asked += 1;
      sums.right += is_right ? 1 : 0;
      if (!is_right) all_right_[i / time] = false;
    }
  }
  void end_episodes(RecallSums& sums) {
    for (const bool all_right : all_right_) {
      sums.episodes += 1;
      sums.solved += all_right ? 1 : 0;
    }
    all_right_.clear();
  }

 private:
  std::vector<bool> all_right_;  // of each row
};

Measurement recall_measurement(const RecallSums& sums) {
  const double loss = clear_nan_sign(sums.nats / sums.asked);
  const double accuracy = percent(sums.right, sums.asked);
  const double success = percent(sums.solved, sums.episodes);
  return {.metric_values = {{"loss", loss, "nats per action"},
                            {"accuracy", accuracy, "percent"},
                            {"success_rate", success, "percent"},
                            {.name = "episodes", .value = sums.episodes, .is_count = true}},
          .text = fmt::format("loss {:.4f}, accuracy {:.2f}%, success rate {:.2f}% of {}",
                              loss,
                              accuracy,
                              success,
                              pluralize(std::llround(sums.episodes), "episode"))};
}

// Collective. Evaluates whole episodes, in at least `most` batches; 0: the default number.
Measurement measure(const Environment& environment,
                    const Model& model,
                    const EpisodeLayout& layout,
                    std::int64_t most,
                    const std::function<void(std::size_t)>& told = {}) {
  const ProcessMesh& mesh = model.parameters().mesh();
  EpisodeSource source(environment,
                       layout,
                       validation_episodes(),
                       mesh.data_coordinate(),
                       mesh.data.size(),
                       model.parameters().device().host());
  const std::int64_t segments = layout.segments_of(environment);
  const std::int64_t episodes = episodes_of(environment, layout.segment, most);
  RecallSums sums;
  RecallScores scores;
  ModelInput reading = {.max_mem_len = model.body().max_mem_len()};
  for (std::int64_t i = 0; i < episodes * segments; ++i) {
    const Batch batch = source.next();
    reading.fields = batch.fields;
    Predictions answers = model.predict(reading, ForwardContext{});
    reading.carried = std::move(answers.carried);
    if (told) told(static_cast<std::size_t>(i + 1));
    if (mesh.tensor.rank() != 0) continue;
    sums.nats += sum(answers.terms.front().values).value().item();
    if (mesh.context.rank() != 0) continue;
    scores.add(batch, answers.choices, sums);
    if ((i + 1) % segments == 0) scores.end_episodes(sums);
  }
  const Tensor all = Tensor::from<double>(
      std::vector<double>{sums.nats, sums.asked, sums.right, sums.episodes, sums.solved},
      {5},
      Device::cpu(),
      MemoryTag::workspace);
  mesh.world.all_reduce(all, Reduction::sum);
  const auto found = all.span<double>();
  return recall_measurement({found[0], found[1], found[2], found[3], found[4]});
}

class Recall : public EnvironmentTask {
 public:
  explicit Recall(const TaskContext& setting)
      : EnvironmentTask(setting),
        layout_{setting.data.batch, setting.data.segment, true},
        mesh_(setting.mesh),
        host_(setting.host),
        random_(Random(setting.seed).child("episodes")),
        validation_batches_(setting.validation_batches) {}

  std::unique_ptr<BatchSource> source() const override {
    return std::make_unique<EpisodeSource>(
        environment(), layout_, random_, mesh_.data_coordinate(), mesh_.data.size(), host_);
  }
  std::string overview() const override {
    return fmt::format("{}: {} per episode; batches of {} of {}",
                       environment().description,
                       pluralize(environment().steps, "step"),
                       pluralize(layout_.streams, "sequence"),
                       pluralize(layout_.segment, "step"));
  }

 private:
  Measurement measured(const Environment& in, const Model& model) const override {
    return measure(in, model, {layout_.streams, layout_.segment}, validation_batches_);
  }

  EpisodeLayout layout_;
  ProcessMesh mesh_;
  Device host_;
  Random random_;
  std::int64_t validation_batches_;
};

Batch dry_recall(const MetaBatch& wanted) {
  const StreamRange streams = streams_of_rank(wanted.data.batch,
                                              wanted.mesh.data_coordinate(),
                                              wanted.mesh.data.size(),
                                              "data.global_batch_size");
  const Shape shape = {streams.count(), wanted.segments * wanted.data.segment};
  Batch batch;
  for (const char* name : {"tokens", "targets"})
    batch.fields[name] = Tensor::empty(shape, DType::i64, wanted.host, MemoryTag::workspace);
  batch.fields["earlier"] =
      Tensor::empty({streams.count()}, DType::i64, wanted.host, MemoryTag::workspace);
  batch.first_row = streams.begin;
  batch.resets_state = wanted.resets_state;
  batch.counts = {{"tokens", shape.elements()}, {"rows", streams.count()}};
  return batch;
}

// Returns the predicted action at each observation of a line, which is one episode.
std::vector<std::int64_t> actions_of(const Model& model,
                                     const std::string& line,
                                     std::int64_t segment) {
  const Device host = model.parameters().device().host();
  const auto numbers = [&](const Shape& shape) {
    return Tensor::zeros(shape, DType::i64, host, MemoryTag::workspace);
  };
  std::vector<std::int64_t> actions;
  ModelInput reading = {.max_mem_len = model.body().max_mem_len()};
  const std::int64_t steps = std::ssize(line);
  for (std::int64_t first = 0; first < steps; first += segment) {
    const std::int64_t count = std::min(segment, steps - first);
    const Tensor tokens = numbers({1, segment}), earlier = numbers({1});
    for (std::int64_t i = 0; i < count; ++i)
      tokens.span<std::int64_t>()[static_cast<std::size_t>(i)] =
          static_cast<unsigned char>(line[static_cast<std::size_t>(first + i)]);
    earlier.span<std::int64_t>()[0] = first;
    reading.fields = {{"tokens", tokens}, {"targets", numbers({1, segment})}, {"earlier", earlier}};
    Predictions answers = model.predict(reading, ForwardContext{});
    reading.carried = std::move(answers.carried);
    const auto choices = answers.choices.span<std::int64_t>();
    actions.insert(actions.end(), choices.begin(), choices.begin() + count);
  }
  return actions;
}

// Returns the actions of each line, separated by spaces.
std::vector<std::string> write(const PredictRequest& request) {
  std::vector<std::string> result;
  for (const std::string& line : request.lines) {
    std::string& actions = result.emplace_back();
    for (const std::int64_t action : actions_of(request.model, line, request.data.segment))
      actions += (actions.empty() ? "" : " ") + request.labels.name(action);
    if (request.after_batch) request.after_batch();
  }
  return result;
}

}  // namespace

TaskSpec behavior_cloning_task() {
  TaskSpec kind = environment_task("behavior_cloning");
  kind.documentation =
      "prediction of the expert action at each step of an environment's episodes; data.train and "
      "data.validation describe the environment: t_maze, memory_maze, numpad or "
      "associative_recall, with its parameters";
  kind.readout = tagging_head();
  kind.open = [](const TaskContext& setting) -> std::unique_ptr<Task> {
    return std::make_unique<Recall>(setting);
  };
  kind.meta_batch = dry_recall;
  kind.goals = {{"loss", false}, {"accuracy"}, {"success_rate"}};
  kind.words = [](const DataOptions& data) -> BatchDescription {
    return {fmt::format("batches of {} of {}",
                        pluralize(data.batch, "sequence"),
                        pluralize(data.segment, "step")),
            "data.seq_length, data.global_batch_size"};
  };
  kind.evaluate = [](const EvaluateRequest& request) {
    const Environment environment = environment_of(request);
    const EpisodeLayout layout = {request.data.batch, request.data.segment};
    const std::int64_t segments =
        episodes_of(environment, layout.segment, 0) * layout.segments_of(environment);
    return measure(environment,
                   request.model,
                   layout,
                   0,
                   progress(request.say,
                            "segments",
                            static_cast<std::size_t>(segments),
                            request.progress_interval));
  };
  kind.write = write;
  return kind;
}

}  // namespace longspan
