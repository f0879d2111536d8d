#include "framework/tasks/recall.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/autograd/ops.h"
#include "framework/core/unsigned_nan.h"
#include "framework/data/episode_source.h"
#include "framework/model/tag_readout.h"
#include "framework/tasks/environment_file.h"
#include "framework/tasks/labelled_task.h"

namespace longspan {
namespace {

// What came of episodes, as sums that add over ranks.
struct RecallSums {
  double nats = 0;
  double asked = 0;
  double right = 0;
  double episodes = 0;
  double solved = 0;  // those in which all was right
};

// Whether the episodes under way have gone right so far.
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

Measurement measurement(const RecallSums& sums) {
  const double loss = unsigned_nan(sums.nats / sums.asked);
  const double accuracy = percent(sums.right, sums.asked);
  const double success = percent(sums.solved, sums.episodes);
  return {.figures = {{"loss", loss, "nats an action"},
                      {"accuracy", accuracy, "percent"},
                      {"success", success, "percent"},
                      {.name = "episodes", .value = sums.episodes, .is_count = true}},
          .text = fmt::format("loss {:.4f}, accuracy {:.2f}%, success {:.2f}% of {} episodes",
                              loss,
                              accuracy,
                              success,
                              sums.episodes)};
}

// Collective. Whole episodes, of at least `most` batches; 0: the usual number.
Measurement measure(const Environment& environment,
                    const Model& model,
                    const EpisodeLayout& layout,
                    std::int64_t most) {
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
  Reading reading = {.longest_memory = model.body().longest_memory()};
  for (std::int64_t i = 0; i < episodes * segments; ++i) {
    const Batch batch = source.next();
    reading.fields = batch.fields;
    Answers answers = model.answers(reading, Pass{});
    reading.carried = std::move(answers.carried);
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
  return measurement({found[0], found[1], found[2], found[3], found[4]});
}

class Recall : public Task {
 public:
  explicit Recall(const TaskSetting& setting)
      : layout_{setting.data.batch, setting.data.segment, true},
        mesh_(setting.mesh),
        host_(setting.host),
        random_(Random(setting.seed).child("episodes")),
        validation_batches_(setting.validation_batches),
        environment_(read_environment(setting.data.train, setting.mesh.world)),
        identity_(identify_files({setting.data.train}, setting.mesh.world)) {
    if (setting.data.validation.empty()) return;
    validation_ = read_environment(setting.data.validation, setting.mesh.world);
    require_same_actions(
        LabelSet(environment_.actions), *validation_, setting.data.validation.told());
  }

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  std::int64_t classes() const override { return std::ssize(environment_.actions); }
  const TextIdentity& identity() const override { return identity_; }
  std::unique_ptr<Source> source() const override {
    return std::make_unique<EpisodeSource>(
        environment_, layout_, random_, mesh_.data_coordinate(), mesh_.data.size(), host_);
  }
  std::string introduction() const override {
    return fmt::format("{}: {} steps an episode, {} streams of episodes in segments of {}",
                       environment_.description,
                       environment_.steps,
                       layout_.streams,
                       layout_.segment);
  }
  void save(Scalars& scalars) const override {
    scalars.set(labels_scalar, LabelSet(environment_.actions).to_json());
  }
  void judge(const Scalars& saved, const std::string& place) const override {
    require_same_actions(labels_of(saved, place), environment_, place);
  }
  std::optional<Measurement> validate(const Model& model) const override {
    if (!validation_) return std::nullopt;
    Measurement measured =
        measure(*validation_, model, {layout_.streams, layout_.segment}, validation_batches_);
    measured.text = "validation " + measured.text;
    return measured;
  }

 private:
  EpisodeLayout layout_;
  ProcessMesh mesh_;
  Device host_;
  Random random_;
  std::int64_t validation_batches_;
  Tokenizer tokenizer_;
  Environment environment_;
  TextIdentity identity_;
  std::optional<Environment> validation_;
};

Batch dry_batch(const DryBatch& wanted) {
  const StreamRange streams = streams_of_rank(
      wanted.data.batch, wanted.mesh.data_coordinate(), wanted.mesh.data.size(), "data.batch");
  const Shape shape = {streams.count(), wanted.segments * wanted.data.segment};
  Batch batch;
  for (const char* name : {"tokens", "targets"})
    batch.fields[name] = Tensor::empty(shape, DType::i64, wanted.host, MemoryTag::workspace);
  batch.fields["earlier"] =
      Tensor::empty({streams.count()}, DType::i64, wanted.host, MemoryTag::workspace);
  batch.first_row = streams.begin;
  batch.fresh = wanted.fresh;
  batch.counts = {{"tokens", shape.elements()}, {"rows", streams.count()}};
  return batch;
}

std::string problem(const DataOptions& data) {
  if (!data.train_target.empty())
    return "data.train_target is for run.task: translation, and run.task is recall; set one of "
           "them";
  if (data.tokenizer != TokenizerKind::bytes)
    return fmt::format(
        "data.tokenizer is {}, and with run.task: recall what is seen at a step is a byte; set it "
        "to bytes",
        name_of(data.tokenizer));
  return "";
}

// What the model does at each step of a line of what is seen, which it reads as an episode.
std::vector<std::int64_t> actions_of(const Model& model,
                                     const std::string& line,
                                     std::int64_t segment) {
  const Device host = model.parameters().device().host();
  const auto numbers = [&](const Shape& shape) {
    return Tensor::zeros(shape, DType::i64, host, MemoryTag::workspace);
  };
  std::vector<std::int64_t> actions;
  Reading reading = {.longest_memory = model.body().longest_memory()};
  const std::int64_t steps = std::ssize(line);
  for (std::int64_t first = 0; first < steps; first += segment) {
    const std::int64_t count = std::min(segment, steps - first);
    const Tensor tokens = numbers({1, segment}), earlier = numbers({1});
    for (std::int64_t i = 0; i < count; ++i)
      tokens.span<std::int64_t>()[static_cast<std::size_t>(i)] =
          static_cast<unsigned char>(line[static_cast<std::size_t>(first + i)]);
    earlier.span<std::int64_t>()[0] = first;
    reading.fields = {{"tokens", tokens}, {"targets", numbers({1, segment})}, {"earlier", earlier}};
    Answers answers = model.answers(reading, Pass{});
    reading.carried = std::move(answers.carried);
    const auto choices = answers.choices.span<std::int64_t>();
    actions.insert(actions.end(), choices.begin(), choices.begin() + count);
  }
  return actions;
}

// The actions of each line, with a space between.
std::vector<std::string> write(const WriteRequest& request) {
  std::vector<std::string> result;
  for (const std::string& line : request.lines) {
    std::string& actions = result.emplace_back();
    for (const std::int64_t action : actions_of(request.model, line, request.data.segment))
      actions += (actions.empty() ? "" : " ") + request.labels.name(action);
  }
  return result;
}

}  // namespace

TaskKind recall_task() {
  return {.name = "recall",
          .documentation =
              "the right action at each step of episodes of an environment, which is made by the "
              "description in data.train and data.validation: corridor, memory_maze or number_pad, "
              "with its numbers",
          .has_labels = true,
          .reads_streams = true,
          .problem = problem,
          .readout = tag_readout(),
          .vocabulary = [](const Tokenizer& tokenizer) { return tokenizer.vocabulary(); },
          .planned_classes = [](const DataOptions& data, const ScanListener&) -> std::int64_t {
            return std::ssize(read_environment(data.train, Communicator()).actions);
          },
          .open = [](const TaskSetting& setting) -> std::unique_ptr<Task> {
            return std::make_unique<Recall>(setting);
          },
          .dry_batch = dry_batch,
          .goals = {{"loss", false}, {"accuracy"}, {"success"}},
          .words = [](const DataOptions& data) -> BatchWords {
            return {fmt::format("{} streams of {} steps", data.batch, data.segment),
                    "data.segment, data.batch"};
          },
          .evaluate =
              [](const EvaluateRequest& request) {
                const Environment environment =
                    read_environment(request.file, request.model.parameters().mesh().world);
                require_same_actions(request.labels, environment, request.file.told());
                return measure(
                    environment, request.model, {request.data.batch, request.data.segment}, 0);
              },
          .write = write};
}

}  // namespace longspan
