#include "framework/tasks/labelled_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/unsigned_nan.h"
#include "framework/data/ordered_reader.h"
#include "framework/data/text_files.h"
#include "framework/tasks/example_data.h"

namespace longspan {
namespace {

Measurement measurement(const LabelledKind& kind, double loss, std::vector<Figure> figures) {
  Measurement measured;
  measured.figures = {{"loss",
                       unsigned_nan(loss),
                       fmt::format("nats a {}", kind.each_token ? kind.label : kind.example)}};
  measured.text = fmt::format("loss {:.4f}", measured.figures.front().value);
  for (Figure& figure : figures) {
    std::string name = figure.name;
    std::ranges::replace(name, '_', ' ');
    const bool is_of_all = name.find('/') == std::string::npos;  // not "f1/noun", of which many are
    if (is_of_all) measured.text += fmt::format(", {} {:.2f}%", name, figure.value);
    measured.figures.push_back(std::move(figure));
  }
  return measured;
}

// Collective. `most`: batches; 0: all.
Measurement measure(const LabelledKind& kind,
                    const LabelSet& labels,
                    const Model& model,
                    const std::shared_ptr<const Examples>& examples,
                    const BucketOptions& buckets,
                    const BatchDivision& division,
                    std::int64_t most) {
  const ProcessMesh& mesh = model.parameters().mesh();
  OrderedReader reader(examples, buckets, division);
  const auto scores = kind.scores(labels);
  double nats = 0, counted = 0;
  for (std::int64_t i = 0; !reader.done() && (most == 0 || i < most); ++i) {
    const Batch batch = reader.next();
    const Answers answers = model.answers({.fields = batch.fields}, Pass{});
    if (mesh.tensor.rank() != 0) continue;
    nats += sum(answers.terms.front().values).value().item();
    if (mesh.context.rank() != 0) continue;
    counted += static_cast<double>(batch.count(kind.count));
    scores->add(batch, answers.choices);
  }
  std::vector<double> sums = scores->sums();
  sums.insert(sums.end(), {nats, counted});
  const Tensor all =
      Tensor::from<double>(sums, {std::ssize(sums)}, Device::cpu(), MemoryTag::workspace);
  mesh.world.all_reduce(all, Reduction::sum);
  const auto values = all.span<double>();
  return measurement(kind, values[values.size() - 2] / values.back(), scores->figures(values));
}

class LabelledTask : public Task {
 public:
  LabelledTask(const LabelledKind& kind, const TaskSetting& setting)
      : kind_(kind),
        train_(setting.data.train),
        validation_batches_(setting.validation_batches),
        tokenizer_(
            prepare_tokenizer(setting.data, setting.run, setting.mesh.world, setting.listener)),
        labels_(kind.learn(setting.data, setting.mesh.world, setting.listener)),
        data_(setting, [&](const NamedPath& file, const NamedPath&) {
          return kind.open(
              file, setting.data, labels_, tokenizer_, setting.mesh.world, setting.listener);
        }) {}

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const TextIdentity& identity() const override { return data_.identity(); }
  std::int64_t classes() const override { return labels_.size(); }
  std::unique_ptr<Source> source() const override { return data_.source(); }
  std::string introduction() const override {
    return data_.introduction(fmt::format(
        "{} {}s with {} {}", data_.examples().size(), kind_.example, labels_.size(), kind_.labels));
  }

  void save(Scalars& scalars) const override { scalars.set(labels_scalar, labels_.to_json()); }
  void judge(const Scalars& saved, const std::string& place) const override {
    const LabelSet before = labels_of(saved, place);
    if (before == labels_) return;
    const auto only_in = [](const LabelSet& these, const LabelSet& those) {
      const auto found = std::ranges::find_if(
          these.names(), [&](const std::string& name) { return those.id_of(name) < 0; });
      return found == these.names().end() ? std::string() : *found;
    };
    const std::string added = only_in(labels_, before);
    throw DataError(
        "{}: was trained with {} {}, and {} has {} ({} \"{}\"); set data.train as it was, or "
        "another run.directory to begin a new run",
        place,
        before.size(),
        kind_.labels,
        train_,
        labels_.size(),
        added.empty() ? "it lacks" : "one that is new is",
        added.empty() ? only_in(before, labels_) : added);
  }

  std::optional<Measurement> validate(const Model& model) const override {
    if (!data_.validation()) return std::nullopt;
    Measurement measured = measure(kind_,
                                   labels_,
                                   model,
                                   data_.validation(),
                                   data_.buckets(),
                                   data_.division(),
                                   validation_batches_);
    measured.text = "validation " + measured.text;
    return measured;
  }

 private:
  LabelledKind kind_;
  NamedPath train_;
  std::int64_t validation_batches_;
  Tokenizer tokenizer_;
  LabelSet labels_;
  ExampleData data_;
};

std::string problem_of(const LabelledKind& kind, const DataOptions& data) {
  for (const auto& [path, name] : {std::pair(&data.train_target, "train"),
                                   std::pair(&data.validation_target, "validation"),
                                   std::pair(&data.test_target, "test")})
    if (!path->empty())
      return fmt::format(
          "data.{}_target is for run.task: translation, and run.task is {}, which "
          "reads one file; set one of them",
          name,
          kind.task);
  if (data.tokenizer == TokenizerKind::characters)
    return fmt::format(
        "data.tokenizer is characters, which are those of data.train with its {0}; "
        "with run.task: {1} set it to bytes, or to sentencepiece with "
        "data.tokenizer_model",
        kind.labels,
        kind.task);
  if (data.tokenizer == TokenizerKind::sentencepiece && data.tokenizer_model.empty())
    return fmt::format(
        "data.tokenizer is sentencepiece without data.tokenizer_model, and data.train "
        "has {} beside its text; train a model on the text alone by longspan "
        "tokenizer train TEXT --output FILE.model, and name it, or set "
        "data.tokenizer to bytes",
        kind.labels);
  return "";
}

FieldShapes fields_of(const LabelledKind& kind) {
  return [kind](std::int64_t rows, const Lengths& columns) -> std::map<std::string, Shape> {
    const Shape each = {rows, columns.target};
    const Shape one = {rows};
    return {{"tokens", each}, {"length", one}, {kind.target, kind.each_token ? each : one}};
  };
}

Measurement evaluate_file(const LabelledKind& kind, const EvaluateRequest& request) {
  const ProcessMesh& mesh = request.model.parameters().mesh();
  const auto examples = kind.open(
      request.file, request.data, request.labels, request.tokenizer, mesh.world, request.listener);
  return measure(kind,
                 request.labels,
                 request.model,
                 examples,
                 request.data.buckets,
                 {mesh.data_coordinate(), mesh.data.size(), 1},
                 0);
}

// Of each line its labels, with a space between them.
std::vector<std::string> write_labels(const LabelledKind& kind, const WriteRequest& request) {
  std::vector<LabelledLine> lines;
  for (std::size_t i = 0; i < request.lines.size(); ++i)
    lines.push_back(kind.read(request.tokenizer, request.lines[i], request.place(i)));
  std::vector<std::string> result;
  for (const auto& ids : label_lines(
           request.model, lines, kind.each_token, request.decoding.batch_tokens, request.place)) {
    std::string& line = result.emplace_back();
    for (const std::int64_t id : ids) line += (line.empty() ? "" : " ") + request.labels.name(id);
  }
  return result;
}

}  // namespace

LabelSet labels_of(const Scalars& scalars, const std::string& place) {
  const std::string json = scalars.get_or<std::string>(labels_scalar, "");
  return json.empty() ? LabelSet() : LabelSet::from_json(json, place);
}

TaskKind labelled_task(const LabelledKind& kind) {
  std::vector<Goal> goals = {{"loss", false}};
  goals.insert(goals.end(), kind.goals.begin(), kind.goals.end());
  return {
      .name = kind.task,
      .documentation = kind.documentation,
      .has_labels = true,
      .problem = [kind](const DataOptions& data) { return problem_of(kind, data); },
      .readout = kind.readout,
      .vocabulary = [](const Tokenizer& tokenizer) { return tokenizer.vocabulary(); },
      .planned_classes =
          [kind](const DataOptions& data, const ScanListener& listener) {
            return kind.learn(data, Communicator(), listener).size();
          },
      .open = [kind](const TaskSetting& setting) -> std::unique_ptr<Task> {
        return std::make_unique<LabelledTask>(kind, setting);
      },
      .dry_batch =
          [kind](const DryBatch& wanted) { return dry_examples(wanted, false, fields_of(kind)); },
      .goals = std::move(goals),
      .evaluate = [kind](const EvaluateRequest& request) { return evaluate_file(kind, request); },
      .write = [kind](const WriteRequest& request) { return write_labels(kind, request); }};
}

}  // namespace longspan
