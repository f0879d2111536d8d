#include "framework/tasks/labeled_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/dtype.h"
#include "framework/core/format.h"
#include "framework/core/quote.h"
#include "framework/data/batching/bucketed_source.h"
#include "framework/data/corpus/text_files.h"
#include "framework/tasks/example_data.h"

namespace longspan {
namespace {

// Labels of data.train, with a warning about their number.
struct TrainingLabels {
  LabelSet labels;
  std::string warning = {};
};

// Collective. Throws DataError where the columns of a text file are in the wrong order.
TrainingLabels learn_training(const LabeledTaskSpec& kind,
                              const DataOptions& data,
                              const Communicator& all,
                              const ProgressCallback& listener) {
  const LearnedLabels learned = kind.learn(data, all, listener);
  if (!learned.may_be_swapped()) return {learned.labels};
  const std::string found =
      fmt::format("{}: expected {} on each line, found {} for {}",
                  data.train,
                  kind.line,
                  pluralize(learned.labels.size(), "label"),
                  pluralize(*learned.texts, kind.each_token ? "different word" : "different text"));
  // Words often have many tags, and small corpora may have many classes.
  constexpr std::int64_t max_classes = 50;
  if (!kind.each_token && learned.labels.size() >= max_classes)
    throw DataError("{}; swap the columns", found);
  return {learned.labels, found + "; swap the columns if their order is reversed"};
}

// Omits the loss if no target has one.
Measurement measurement(const LabeledTaskSpec& kind,
                        std::optional<double> loss,
                        std::vector<MetricValue> figures) {
  Measurement measured;
  if (loss) measured.metric_values = {{"loss", clear_nan_sign(*loss), kind.unit}};
  measured.text =
      loss ? fmt::format("loss {:.4f}", measured.metric_values.front().value)
           : fmt::format("loss undefined: the {} of all sampled {}s are missing in training",
                         kind.labels,
                         kind.example);
  for (MetricValue& figure : figures) {
    std::string name = figure.name;
    std::ranges::replace(name, '_', ' ');
    // excludes "f1/noun" and similar, which are numerous
    const bool is_of_all = name.find('/') == std::string::npos;
    if (is_of_all)
      measured.text += figure.unit == "percent" ? fmt::format(", {} {:.2f}%", name, figure.value)
                                                : fmt::format(", {} {:.4f}", name, figure.value);
    measured.metric_values.push_back(std::move(figure));
  }
  return measured;
}

// Adds the number of labels that the model did not read, as after the end of a truncated sentence.
// They have no loss.
void add_left_out(const LabeledTaskSpec& kind,
                  double left_out,
                  double read,
                  Measurement& measured) {
  if (left_out == 0) return;
  measured.metric_values.push_back({.name = "left_out", .value = left_out, .is_count = true});
  measured.text +=
      fmt::format("; {:.0f} of {:.0f} {} not read (counted as errors, excluded from the loss)",
                  left_out,
                  left_out + read,
                  kind.labels);
}

// An evaluated file. Its labels are those of training, then those only in the file, which count as
// errors and have no loss.
struct MeasuredFile {
  LabelSet labels;
  std::shared_ptr<const Examples> examples;
};

// Collective. Returns the labels of training, then those only in the file. If the file shares no
// label with training, returns only those of training; opening the file then fails.
LabelSet labels_with_unseen(const LabeledTaskSpec& kind, const LabeledFile& file) {
  if (!kind.scores) return file.labels;
  DataOptions data = file.data;
  data.train = file.path;
  data.train_target = file.target;
  std::vector<std::string> names = file.labels.names();
  const LabelSet found = kind.learn(data, file.all, file.listener).labels;
  bool any_known = false;
  for (const std::string& name : found.names()) {
    const bool known = file.labels.id_of(name) >= 0;
    any_known = any_known || known;
    if (!known) names.push_back(name);
  }
  return any_known ? LabelSet::in_order(std::move(names), file.path.describe()) : file.labels;
}

MeasuredFile open_measured(const LabeledTaskSpec& kind, const LabeledFile& file) {
  LabelSet labels = labels_with_unseen(kind, file);
  auto examples = kind.open(
      {file.path, file.target, file.data, labels, file.tokenizer, file.all, file.listener});
  return {std::move(labels), std::move(examples)};
}

// Targets of an evaluation.
struct TargetCounts {
  double unseen = 0;       // absent from training
  double unseen_read = 0;  // absent from training, and read by the model
  double all = 0;

  // `read`: whether the model read them.
  void add(const Tensor& targets, const LabelSet& learnt, bool read) {
    for (const std::int64_t id : targets.span<std::int64_t>()) {
      const double is_unseen = id >= learnt.size() ? 1 : 0;
      all += id >= 0 ? 1 : 0;
      unseen += is_unseen;
      if (read) unseen_read += is_unseen;
    }
  }
};

// "unseen in training: 3 of 120 tags ("B-CITY")".
std::string unseen_text(const LabeledTaskSpec& kind,
                        const LabelSet& learnt,
                        const LabelSet& labels,
                        const TargetCounts& counts) {
  std::string names;
  for (std::int64_t id = learnt.size(); id < labels.size(); ++id)
    names += (names.empty() ? "" : ", ") + quote(labels.name(id));
  const std::string all = kind.each_token ? kind.labels : kind.example + "s by their " + kind.label;
  return fmt::format(
      "; unseen in training: {} of {} {} ({}), counted as errors and excluded from the loss",
      counts.unseen,
      counts.all,
      all,
      truncated(names, 100));
}

// Collective.
Measurement measure(const LabeledTaskSpec& kind,
                    const LabelSet& learnt,
                    const Model& model,
                    const MeasuredFile& file,
                    const BucketOptions& buckets,
                    const BatchShard& division,
                    const ExampleSample& sample,
                    const std::function<void(std::size_t)>& told = {}) {
  const ProcessMesh& mesh = model.parameters().mesh();
  SequentialReader reader(file.examples, buckets, division, sample);
  const auto scores = kind.scores ? kind.scores(learnt, file.labels) : nullptr;
  const NoGradGuard unrecorded;
  double nats = 0, counted = 0, left_out = 0;
  TargetCounts targets;
  while (!reader.done()) {
    const Batch batch = reader.next();
    Predictions answers;
    if (scores)
      answers = model.predict({.fields = batch.fields}, ForwardContext{});
    else
      answers.terms = model.losses({.fields = batch.fields}, ForwardContext{}).terms;
    if (told) told(reader.examples_read());
    if (mesh.tensor.rank() != 0) continue;
    nats += sum(answers.terms.front().values).value().item();
    if (mesh.context.rank() != 0) continue;
    counted += static_cast<double>(batch.count(kind.count));
    left_out += static_cast<double>(batch.count("left_out"));
    if (!scores) continue;
    scores->add(batch, answers.choices);
    targets.add(batch.field(kind.target), learnt, true);
    if (batch.fields.contains("left_out")) targets.add(batch.field("left_out"), learnt, false);
  }
  std::vector<double> sums = scores ? scores->sums() : std::vector<double>();
  sums.insert(sums.end(),
              {left_out, targets.unseen, targets.unseen_read, targets.all, nats, counted});
  const Tensor all =
      Tensor::from<double>(sums, {std::ssize(sums)}, Device::cpu(), MemoryTag::workspace);
  mesh.world.all_reduce(all, Reduction::sum);
  const auto values = all.span<double>();
  const auto own = values.last(6);  // in the order above
  targets = {.unseen = own[1], .unseen_read = own[2], .all = own[3]};
  nats = own[4], counted = own[5];
  const double with_loss = counted - targets.unseen_read;
  const double loss = nats / with_loss;
  Measurement measured = measurement(kind,
                                     scores && with_loss == 0 ? std::nullopt : std::optional(loss),
                                     scores ? scores->figures(values) : kind.figures_of_loss(loss));
  add_coverage(reader.coverage(), measured);
  add_left_out(kind, own[0], counted, measured);
  if (file.labels.size() == learnt.size()) return measured;
  measured.metric_values.push_back(
      {.name = "unseen_" + kind.labels, .value = targets.unseen, .is_count = true});
  measured.text += unseen_text(kind, learnt, file.labels, targets);
  return measured;
}

void require_image(const std::optional<ImageShape>& learnt, const Examples& found) {
  const std::optional<ImageShape> image = found.image();
  if (learnt && image && *learnt != *image)
    throw DataError(
        "{}: expected images of {}, found {}", found.path(), to_string(*learnt), to_string(*image));
}

// Unseen labels are an error for a class-conditional model.
void require_labels(const Model& model, const Examples& found) {
  if (model.body().end().reads_classes && !found.validate_label().empty())
    throw DataError("{}", found.validate_label());
}

class LabeledTask : public Task {
 public:
  LabeledTask(const LabeledTaskSpec& kind, const TaskContext& setting)
      : kind_(kind),
        train_(setting.data.train.parts.at(0).path),
        sample_{setting.validation_batches, setting.seed},
        tokenizer_(
            prepare_tokenizer(setting.data, setting.run, setting.mesh.world, setting.listener)),
        learnt_(learn_training(kind, setting.data, setting.mesh.world, setting.listener)),
        labels_(learnt_.labels),
        validation_labels_(labels_),
        data_(setting, [&](const ConfigPath& file, const ConfigPath& target) {
          const LabeledFile opened = {file,
                                      target,
                                      setting.data,
                                      labels_,
                                      tokenizer_,
                                      setting.mesh.world,
                                      setting.listener};
          if (file.text() == setting.data.train.text()) return kind.open(opened);
          MeasuredFile measured = open_measured(kind, opened);
          validation_labels_ = measured.labels;
          return measured.examples;
        }) {
    if (data_.validation()) require_image(data_.examples().image(), *data_.validation());
  }

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const DataFingerprint& identity() const override { return data_.identity(); }
  std::int64_t classes() const override { return labels_.size(); }
  std::optional<ImageShape> image() const override { return data_.examples().image(); }
  std::unique_ptr<BatchSource> source() const override { return data_.source(); }
  std::unique_ptr<BatchSource> source_by(const Model& model) const override {
    if (data_.validation()) require_labels(model, *data_.validation());
    return source();
  }
  std::vector<BatchShape> batches() const override { return data_.batches(); }
  std::string overview() const override {
    const std::optional<ImageShape> image = data_.examples().image();
    const std::string remark = kind_.remark ? kind_.remark(labels_) : "";
    return data_.introduction(fmt::format("{}{} with {}{}",
                                          pluralize(data_.examples().size(), kind_.example),
                                          image ? " of " + to_string(*image) : "",
                                          pluralize(labels_.size(), kind_.label, kind_.labels),
                                          remark.empty() ? "" : " (" + remark + ")"));
  }

  std::vector<std::string> warnings() const override {
    // A class needs several examples to be learned.
    constexpr std::int64_t min_examples = 16;
    if (!learnt_.warning.empty()) return {learnt_.warning};
    const std::int64_t examples = data_.examples().size();
    if (kind_.each_token || examples < min_examples || 2 * labels_.size() <= examples) return {};
    return {fmt::format("{} has {} {} for {} {}s, most with a single example; {}",
                        train_,
                        labels_.size(),
                        kind_.labels,
                        examples,
                        kind_.example,
                        data_.examples().image()
                            ? "use the same label for all images of a class"
                            : "put the class before the tab, and the text after it")};
  }

  void save(Scalars& scalars) const override {
    scalars.set(labels_scalar, labels_.to_json());
    if (const std::optional<ImageShape> image = data_.examples().image())
      save_image(*image, scalars);
  }
  void check_compatible(const Scalars& saved, const std::string& place) const override {
    require_image(image_of(saved), data_.examples());
    const LabelSet before = labels_of(saved, place);
    if (before == labels_) return;
    const auto only_in = [](const LabelSet& these, const LabelSet& those) {
      const auto found = std::ranges::find_if(
          these.names(), [&](const std::string& name) { return those.id_of(name) < 0; });
      return found == these.names().end() ? std::string() : *found;
    };
    const std::string added = only_in(labels_, before);
    throw DataError(
        "{}: expected the {} of the checkpoint, but {} has {} ({} \"{}\"); restore "
        "data.train, or set another run.output_dir to start a new run",
        place,
        pluralize(before.size(), kind_.label, kind_.labels),
        train_,
        labels_.size(),
        added.empty() ? "missing" : "new",
        added.empty() ? only_in(before, labels_) : added);
  }

  std::optional<Measurement> validate(const Model& model) const override {
    if (!data_.validation()) return std::nullopt;
    Measurement measured = measure(kind_,
                                   labels_,
                                   model,
                                   {validation_labels_, data_.validation()},
                                   data_.buckets(),
                                   data_.division(),
                                   sample_);
    measured.text = "validation " + measured.text;
    return measured;
  }

 private:
  LabeledTaskSpec kind_;
  ConfigPath train_;
  ExampleSample sample_;  // of the validation data
  Tokenizer tokenizer_;
  TrainingLabels learnt_;
  LabelSet labels_;
  LabelSet validation_labels_;  // the learned labels, then others of the validation data
  ExampleData data_;
};

FieldShapes fields_of(const LabeledTaskSpec& kind) {
  return [kind](std::int64_t rows, const Lengths& columns) -> std::map<std::string, Shape> {
    const Shape each = {rows, columns.target};
    const Shape one = {rows};
    return {{kind.field, each}, {"length", one}, {kind.target, kind.each_token ? each : one}};
  };
}

BatchDescription batch_words_of(const LabeledTaskSpec& kind, const DataOptions& data) {
  BatchDescription words;
  const std::int64_t tokens = data.buckets.batch_tokens;
  words.text = fmt::format("{}s in batches of {}", kind.example, pluralize(tokens, "token"));
  words.keys = kind.example == "image" ? "data.global_batch_tokens"
                                       : "data.global_batch_tokens, data.max_length";
  // The number of examples per batch depends on their length.
  if (!kind.each_token) return words;
  words.counted = tokens;
  words.counted_keys = "data.global_batch_tokens";
  return words;
}

// Reads on this rank only.
std::shared_ptr<const Examples> open_alone(const LabeledTaskSpec& kind,
                                           const DataOptions& data,
                                           const ProgressCallback& listener) {
  const Communicator alone;
  const LabelSet labels = kind.learn(data, alone, listener).labels;
  const Tokenizer tokenizer = make_tokenizer(data, listener);
  return kind.open({data.train, data.train_target, data, labels, tokenizer, alone, listener});
}

Measurement evaluate_file(const LabeledTaskSpec& kind, const EvaluateRequest& request) {
  const ProcessMesh& mesh = request.model.parameters().mesh();
  const MeasuredFile file = open_measured(kind,
                                          {request.file,
                                           request.target,
                                           request.data,
                                           request.labels,
                                           request.tokenizer,
                                           mesh.world,
                                           request.listener});
  require_image(request.image, *file.examples);
  require_labels(request.model, *file.examples);
  return measure(kind,
                 request.labels,
                 request.model,
                 file,
                 request.data.buckets,
                 {mesh.data_coordinate(), mesh.data.size(), 1},
                 {},
                 progress(request.say,
                          kind.example + "s",
                          static_cast<std::size_t>(file.examples->size()),
                          request.progress_interval));
}

// Returns the labels of each line, separated by spaces; one output line per example where a line
// names several.
std::vector<std::string> write_labels(const LabeledTaskSpec& kind, const PredictRequest& request) {
  std::vector<LabeledLine> lines;
  std::vector<std::size_t> numbers;  // input line of each example
  for (std::size_t i = 0; i < request.lines.size(); ++i)
    for (LabeledLine& line : kind.read(request, i)) {
      lines.push_back(std::move(line));
      numbers.push_back(i);
    }
  const auto place = [&](std::size_t i) { return request.place(numbers[i]); };
  std::vector<std::string> result;
  for (const auto& ids : predict_labels(request.model,
                                        lines,
                                        kind.field,
                                        kind.each_token,
                                        request.decoding.batch_tokens,
                                        place,
                                        request.after_batch)) {
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

void save_image(const ImageShape& image, Scalars& scalars) {
  for (const auto& [name, count] : {std::pair(image_scalars[0], image.height),
                                    std::pair(image_scalars[1], image.width),
                                    std::pair(image_scalars[2], image.channels)})
    scalars.set(name, count);
}

std::optional<ImageShape> image_of(const Scalars& scalars) {
  if (!scalars.has(image_scalars[0])) return std::nullopt;
  return ImageShape{scalars.get<std::int64_t>(image_scalars[0]),
                    scalars.get<std::int64_t>(image_scalars[1]),
                    scalars.get<std::int64_t>(image_scalars[2])};
}

TaskSpec labeled_task(const std::function<LabeledTaskSpec(const DataOptions&)>& kind_of) {
  const LabeledTaskSpec usual = kind_of({});
  std::vector<ValidationMetric> goals = {{"loss", false}};
  goals.insert(goals.end(), usual.goals.begin(), usual.goals.end());
  return {
      .name = usual.task,
      .documentation = usual.documentation,
      .has_labels = true,
      .problem = [kind_of](const DataOptions& data) { return kind_of(data).problem(data); },
      .readout = usual.readout,
      .vocabulary = [](const Tokenizer& tokenizer,
                       const DataOptions&) { return tokenizer.vocabulary(); },
      .planned_classes =
          [kind_of](const DataOptions& data, const ProgressCallback& listener) {
            return learn_training(kind_of(data), data, Communicator(), listener).labels.size();
          },
      .open = [kind_of](const TaskContext& setting) -> std::unique_ptr<Task> {
        return std::make_unique<LabeledTask>(kind_of(setting.data), setting);
      },
      .meta_batch =
          [kind_of](const MetaBatch& wanted) {
            return meta_examples(wanted, false, fields_of(kind_of(wanted.data)));
          },
      .goals = std::move(goals),
      .words = [kind_of](const DataOptions& data) { return batch_words_of(kind_of(data), data); },
      .planned_batches =
          [kind_of](const DataOptions& data, std::uint64_t seed, const ProgressCallback& listener) {
            return batches_of(open_alone(kind_of(data), data, listener), data, seed);
          },
      .planned_image = [kind_of](const DataOptions& data,
                                 const ProgressCallback& listener) -> std::optional<ImageShape> {
        if (data.format != DataFormat::images) return std::nullopt;
        return open_alone(kind_of(data), data, listener)->image();
      },
      .evaluate =
          [kind_of](const EvaluateRequest& request) {
            return evaluate_file(kind_of(request.data), request);
          },
      .write =
          [kind_of](const PredictRequest& request) {
            return write_labels(kind_of(request.data), request);
          }};
}

}  // namespace longspan
