#include "framework/runs/start_from.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "checkpoints/checkpoint.h"
#include "framework/core/named_path.h"
#include "framework/core/option_text.h"
#include "framework/nn/power_statistics.h"
#include "framework/runs/checkpoint_values.h"
#include "framework/runs/loading.h"
#include "framework/runs/named_checkpoint.h"
#include "framework/runs/resume.h"
#include "framework/runs/vocabulary_rows.h"
#include "framework/tasks/labelled_task.h"
#include "framework/train/parameter_state.h"
#include "framework/weights/saved_weights.h"

namespace longspan {
namespace {

constexpr const char* key = "training.start_from";

// What these keys change of the weights is seen at their tensors, one by one.
constexpr std::array<std::string_view, 15> seen_at_tensors = {"model.vocabulary",
                                                              "model.layers",
                                                              "model.longest",
                                                              "model.relative_reach",
                                                              "model.positions_each_layer",
                                                              "model.inner_losses",
                                                              "model.targets",
                                                              "model.tied_embeddings",
                                                              "model.output_bias",
                                                              "data.tokenizer",
                                                              "data.unknown",
                                                              "training.adapters.rank",
                                                              "training.adapters.layers",
                                                              "training.adapters.beside",
                                                              "training.frozen"};

bool begins_with(const std::string& name, const std::string& beginning) {
  return name == beginning || name.starts_with(beginning + "/");
}

Checkpoint open_meant(const StartingRun& run) {
  const NamedPath& path = run.settings.training.start_from.path;
  // As rank 0 sees it: another node may see it later.
  std::error_code unused;
  const bool is_seen = run.world.rank() == 0 && std::filesystem::exists(path.text(), unused);
  if (run.world.all_reduce(std::int64_t{is_seen}, Reduction::maximum) == 0)
    throw DataError("{}: there is no such run or checkpoint{}", path.told(), path.help_to_find());
  const NamedCheckpoint found = find_checkpoint(
      path, run.settings.run.directory.text(), run.world, value_problems, run.watch);
  for (const std::string& sentence : found.skipped) run.log.warning("{}", sentence);
  return open_run_checkpoint(found.path, run.watch);
}

bool has_adapters(const Checkpoint& checkpoint) {
  return std::ranges::any_of(weights_of(checkpoint), is_of_adapter, &CheckpointTensor::name);
}

// What becomes of the parameters of a model.
class WeightsTaken {
 public:
  WeightsTaken(const StartingRun& run, const Checkpoint& checkpoint, const Model& model);

  void fill(const Parameters& parameters) const;
  std::string told() const;

 private:
  bool is_anew(const std::string& name) const;
  void judge_beginnings(const Parameters& parameters) const;
  void judge_configuration() const;
  void match_vocabulary(const Tokenizer& saved);
  void judge_shapes() const;
  void judge_adapters() const;
  void match_labels();
  void fill_rows(const StateTensor& master, const std::vector<std::int64_t>& rows) const;
  std::string place() const { return checkpoint_.path().string(); }

  const StartingRun& run_;
  const StartOptions& options_;
  const Checkpoint& checkpoint_;
  const Model& model_;
  std::vector<std::string> anew_;
  std::map<std::string, Shape> by_label_;          // tables of classes or tags
  std::vector<std::int64_t> label_rows_;           // of which tables
  std::vector<std::string> missing_;               // from the checkpoint, and not to begin anew
  std::map<std::string, Shape> whole_;             // taken as they are
  std::map<std::string, Shape> by_row_;            // tables of the vocabulary
  std::optional<std::vector<std::int64_t>> rows_;  // of which tables; none: as they are
  std::int64_t saved_rows_ = 0;
};

WeightsTaken::WeightsTaken(const StartingRun& run, const Checkpoint& checkpoint, const Model& model)
    : run_(run),
      options_(run.settings.training.start_from),
      checkpoint_(checkpoint),
      model_(model) {
  judge_beginnings(model.parameters());
  judge_adapters();
  judge_configuration();
  for (const auto& parameter : model.parameters().all()) {
    const std::string& name = parameter->name;
    const Shape& shape = parameter->global_shape;
    const bool is_table = begins_with(name, "embedding") || begins_with(name, "source_embedding") ||
                          begins_with(name, "output");
    // What only the first steps read, a run that has made them has no more.
    const bool is_gone = parameter->read_steps && !checkpoint.has(name);
    const bool is_new = parameter->adapter && !checkpoint.has(name);
    if (is_anew(name) || is_gone || is_new)
      anew_.push_back(name);
    else if (!checkpoint.has(name))
      missing_.push_back(name);
    else if (is_table && shape[0] == model.body().vocabulary())
      by_row_.emplace(name, shape);
    else
      whole_.emplace(name, shape);
  }
  for (const auto& each : model.parameters().centroids())
    if (!is_anew(each->name) && checkpoint.has(each->name))
      whole_.emplace(each->name, each->global_shape());
  for (const auto& each : model.parameters().power_statistics())
    for (const auto& [name, values] : each->saved())
      if (is_anew(name))
        anew_.push_back(name);
      else if (!checkpoint.has(name))
        missing_.push_back(name);
      else
        whole_.emplace(name, values.shape());
  if (!missing_.empty())
    throw ConfigurationError(
        "{}: this model has {}, which {} has not; begin it anew by naming it, or what its name "
        "begins with, in training.start_from_anew, or set the keys of the model as they were there",
        key,
        some_of(missing_),
        place());
  match_labels();
  if (!by_row_.empty()) match_vocabulary(tokenizer_of(checkpoint, run.settings.data));
  judge_shapes();
}

// Without them the other weights are another model's.
void WeightsTaken::judge_adapters() const {
  for (const CheckpointTensor& tensor : weights_of(checkpoint_))
    if (is_of_adapter(tensor.name) && !model_.parameters().find(tensor.name))
      throw ConfigurationError(
          "{}: {} has {}, and this run no such adapter; set training.adapters as it was there, or "
          "begin from what longspan export and import make of it, with the adapters in its weights",
          key,
          place(),
          tensor.name);
}

bool WeightsTaken::is_anew(const std::string& name) const {
  return std::ranges::any_of(
      options_.anew, [&](const std::string& beginning) { return begins_with(name, beginning); });
}

void WeightsTaken::judge_beginnings(const Parameters& parameters) const {
  for (const std::string& beginning : options_.anew) {
    const auto begins = [&](const auto& parameter) {
      return begins_with(parameter->name, beginning);
    };
    if (std::ranges::any_of(parameters.all(), begins)) continue;
    std::vector<std::string> known;
    for (const auto& parameter : parameters.all()) {
      const std::string first = parameter->name.substr(0, parameter->name.find('/'));
      if (std::ranges::find(known, first) == known.end()) known.push_back(first);
    }
    throw ConfigurationError(
        "training.start_from_anew: no parameter of this model begins with \"{}\"; they begin with "
        "{}",
        beginning,
        fmt::join(known, ", "));
  }
}

void WeightsTaken::judge_configuration() const {
  if (checkpoint_.info().configuration.empty()) return;
  std::vector<std::string> refused = change_since(checkpoint_, run_.text.compare).refused;
  const auto key_of = [](const std::string& sentence) {
    return sentence.substr(0, sentence.find(':'));
  };
  std::erase_if(refused, [&](const std::string& sentence) {
    return std::ranges::find(seen_at_tensors, key_of(sentence)) != seen_at_tensors.end();
  });
  // Adapters that begin here change nothing of what is there.
  if (!has_adapters(checkpoint_))
    std::erase_if(refused, [&](const std::string& sentence) {
      return key_of(sentence) == "training.adapters.alpha";
    });
  const std::vector<std::string> all = refused;
  for (const std::string& beginning : options_.changed) {
    const auto meant = [&](const std::string& sentence) {
      return key_of(sentence).starts_with(beginning);
    };
    if (std::ranges::none_of(all, meant))
      run_.log.warning(
          "training.start_from_changed: no key that begins with \"{}\" changes what "
          "the weights of {} mean",
          beginning,
          place());
    for (const std::string& sentence : refused)
      if (meant(sentence)) run_.log.info("changed on purpose: {}", sentence);
    std::erase_if(refused, meant);
  }
  if (!refused.empty())
    throw ConfigurationError(
        "{}: {} was made with another model: {}; set what it has, or name what is changed on "
        "purpose in training.start_from_changed",
        key,
        place(),
        fmt::join(refused, "; "));
}

void WeightsTaken::match_vocabulary(const Tokenizer& saved) {
  saved_rows_ = checkpoint_.shape_of(by_row_.begin()->first)[0];
  if (saved.vocabulary() > saved_rows_)
    throw DataError("{}: {} has {} rows; wanted at least the {} ids of its tokenizer",
                    place(),
                    by_row_.begin()->first,
                    saved_rows_,
                    saved.vocabulary());
  const std::int64_t rows = model_.body().vocabulary();
  if (saved == run_.tokenizer && saved_rows_ == rows) return;
  constexpr const char* otherwise =
      "begin the embedding and the output anew (training.start_from_anew)";
  if (saved.kind() != run_.tokenizer.kind())
    throw ConfigurationError(
        "{}: the tokens of {} are {}, those of this run {}; set data.tokenizer "
        "as it was there, or {}",
        key,
        place(),
        name_of(saved.kind()),
        name_of(run_.tokenizer.kind()),
        otherwise);
  if (options_.vocabulary == StartVocabulary::same)
    throw ConfigurationError(
        "{}: the vocabulary of {} has {} {} in {} rows, that of this run {} in {}{}; set "
        "training.start_from_vocabulary to grow to take the rows of those that both have, or {}",
        key,
        place(),
        saved.vocabulary(),
        name_of(saved.kind()),
        saved_rows_,
        run_.tokenizer.vocabulary(),
        rows,
        saved == run_.tokenizer ? "" : ", not all the same",
        otherwise);
  rows_ = matching_rows({saved, saved_rows_}, {run_.tokenizer, rows});
}

// A readout's rows are its labels', whatever their order there.
void WeightsTaken::match_labels() {
  const LabelSet saved = labels_of(checkpoint_.scalars(), place());
  const bool takes_rows = whole_.contains("output/weight") || by_row_.contains("output/weight");
  if (saved.size() == 0 || run_.labels.size() == 0 || saved == run_.labels || !takes_rows) return;
  constexpr const char* otherwise =
      "begin the readout anew: training.start_from_anew: [output], or name of it [output/weight, "
      "output/bias]";
  for (const std::string& name : run_.labels.names()) label_rows_.push_back(saved.id_of(name));
  const auto absent = std::ranges::find(label_rows_, -1);
  if (saved.size() != run_.labels.size() || absent != label_rows_.end()) {
    const auto& names = run_.labels.names();
    const auto place_of = static_cast<std::size_t>(absent - label_rows_.begin());
    throw ConfigurationError(
        "{}: the labels of {} are {}, those of this run {}{}; {}",
        key,
        place(),
        some_of(saved.names()),
        some_of(names),
        absent == label_rows_.end() ? "" : fmt::format(" (it lacks \"{}\")", names[place_of]),
        otherwise);
  }
  for (const char* const name : {"output/start", "output/transitions", "output/end"})
    if (whole_.contains(name))
      throw ConfigurationError(
          "{}: the labels of {} are in another order than those of this run, and {} is of pairs of "
          "them; {}",
          key,
          place(),
          name,
          otherwise);
  for (const char* const name : {"output/weight", "output/bias"})
    for (auto* const tables : {&whole_, &by_row_})
      if (auto found = tables->extract(name)) by_label_.insert(std::move(found));
}

// Where the keys of the models agree, it is for keys of other sections that tensors do not.
void WeightsTaken::judge_shapes() const {
  const auto judge = [&](const std::string& name, const Shape& wanted) {
    const Shape& found = checkpoint_.shape_of(name);
    if (found != wanted)
      throw ConfigurationError(
          "{}: {} is {} in {} and {} in this model; set the keys of the model as they were there, "
          "or begin it anew by naming it in training.start_from_anew",
          key,
          name,
          found.to_string(),
          place(),
          wanted.to_string());
  };
  for (const auto* const tables : {&whole_, &by_label_})
    for (const auto& [name, shape] : *tables) judge(name, shape);
  for (const auto& [name, shape] : by_row_) judge(name, rows_ ? shape.with(0, saved_rows_) : shape);
}

template <typename From, typename To>
void copy_rows(const Tensor& table,
               const StateTensor& piece,
               const Tensor& values,
               const std::vector<std::int64_t>& rows) {
  const std::int64_t width = table.elements() / table.shape()[0];
  const std::int64_t count = values.elements() / values.shape()[0];
  const std::int64_t column = piece.offset.size() > 1 ? piece.offset[1] : 0;
  for (std::int64_t i = 0; i < values.shape()[0]; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(piece.offset[0] + i)];
    if (row < 0) continue;
    const From* const from = table.data<From>() + row * width + column;
    std::transform(from, from + count, values.data<To>() + i * count, [](From value) {
      return static_cast<To>(value);
    });
  }
}

// Rows that the checkpoint lacks stay as they are.
void WeightsTaken::fill_rows(const StateTensor& master,
                             const std::vector<std::int64_t>& rows) const {
  const Shape& shape = checkpoint_.shape_of(master.name);
  const DType saved = checkpoint_.dtype_of(master.name);
  if (saved != DType::f32 && saved != DType::f64)
    throw DataError(
        "{}: {} is {}; wanted: float32 or float64", place(), master.name, name_of(saved));
  const Device host = master.tensor.device().host();
  StateTensor table;
  table.name = master.name;
  table.tensor = Tensor::empty(shape, saved, host, MemoryTag::workspace);
  table.global_shape = shape;
  table.offset.assign(static_cast<std::size_t>(shape.dimensions()), 0);
  checkpoint_.read(table);
  const Tensor values = master.tensor.to_host();
  const bool from_wide = saved == DType::f64;
  const bool to_wide = values.dtype() == DType::f64;
  const auto copy = from_wide ? (to_wide ? copy_rows<double, double> : copy_rows<double, float>)
                              : (to_wide ? copy_rows<float, double> : copy_rows<float, float>);
  copy(table.tensor, master, values, rows);
  if (values.bytes() != master.tensor.bytes()) master.tensor.copy_from(values);
}

void WeightsTaken::fill(const Parameters& parameters) const {
  std::vector<StateTensor> whole;
  for (StateTensor& master : weights_state(parameters).tensors) {
    if (rows_ && by_row_.contains(master.name))
      fill_rows(master, *rows_);
    else if (by_label_.contains(master.name))
      fill_rows(master, label_rows_);
    else if (whole_.contains(master.name) || by_row_.contains(master.name))
      whole.push_back(std::move(master));
  }
  load_masters(checkpoint_, whole);
  parameters.refresh_compute();
}

std::string WeightsTaken::told() const {
  std::string text = fmt::format(
      "the weights are those of {}, step {}; left out: its optimizer, memory, place in the text "
      "and "
      "count of steps",
      place(),
      checkpoint_.info().step);
  std::vector<std::string> left_out;
  for (const CheckpointTensor& tensor : weights_of(checkpoint_)) {
    if (!whole_.contains(tensor.name) && !by_row_.contains(tensor.name) &&
        !by_label_.contains(tensor.name))
      left_out.push_back(tensor.name);
  }
  if (!left_out.empty()) text += fmt::format(", and {}", some_of(left_out));
  if (!anew_.empty()) text += fmt::format("; begun anew: {}", some_of(anew_));
  if (rows_) {
    const auto fresh = std::ranges::count(*rows_, -1);
    const auto taken = std::ssize(*rows_) - fresh;
    text += fmt::format(
        "; of {} rows of the vocabulary {} are taken and {} new, {} of the {} there "
        "are left out",
        rows_->size(),
        taken,
        fresh,
        saved_rows_ - taken,
        saved_rows_);
  }
  return text;
}

}  // namespace

void start_from(const StartingRun& run, Model& model) {
  if (run.settings.training.start_from.path.empty()) return;
  const Checkpoint checkpoint = open_meant(run);
  const WeightsTaken taken(run, checkpoint, model);
  taken.fill(model.parameters());
  run.log.info("{}", taken.told());
}

}  // namespace longspan
