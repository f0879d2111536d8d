#include "framework/training_loop/init_from.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "checkpoints/checkpoint.h"
#include "framework/core/config_path.h"
#include "framework/core/format.h"
#include "framework/data/rank_zero.h"
#include "framework/interop/adapters.h"
#include "framework/nn/power_statistics.h"
#include "framework/optim/parameter_state.h"
#include "framework/tasks/labeled_task.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/resume.h"

namespace longspan {
namespace {

constexpr const char* key = "training.init_from.path";

// The effect of these keys on the weights is checked tensor by tensor.
constexpr std::array<std::string_view, 15> shape_checked_keys = {
    "model.vocab_size",
    "model.num_hidden_layers",
    "model.max_position_embeddings",
    "model.relative_attention_max_distance",
    "model.per_layer_position_embeddings",
    "model.intermediate_losses.schedule",
    "model.num_future_tokens",
    "model.tie_word_embeddings",
    "model.lm_head_bias",
    "data.tokenizer.type",
    "data.tokenizer.allow_unk",
    "training.lora.rank",
    "training.lora.target_modules",
    "training.lora.modules_to_save",
    "training.frozen_parameters"};

bool has_prefix(const std::string& name, const std::string& beginning) {
  return name == beginning || name.starts_with(beginning + "/");
}

Checkpoint open_meant(const InitFromContext& run) {
  const ConfigPath& path = run.settings.training.start_from.path;
  require_start(path, run.world);
  const NamedCheckpoint found = find_checkpoint(
      path, run.settings.run.directory.text(), run.world, value_problems, run.watch);
  for (const std::string& sentence : found.skipped) run.log.warning("{}", sentence);
  return open_run_checkpoint(found.path, run.watch);
}

bool has_adapters(const Checkpoint& checkpoint) {
  return std::ranges::any_of(weights_of(checkpoint), is_of_adapter, &CheckpointTensor::name);
}

// Decides how each parameter of a model is initialized.
class WeightsTaken {
 public:
  WeightsTaken(const InitFromContext& run, const Checkpoint& checkpoint, const Model& model);

  void fill(const Parameters& parameters) const;
  std::string describe() const;
  // Returns a message if newly initialized weights are not trained, or "".
  std::string describe_untrained() const;

 private:
  bool is_reinitialized(const std::string& name) const;
  void check_prefixes(const Parameters& parameters) const;
  void check_configuration(const ConfigurationChange& change) const;
  void match_vocabulary(const Tokenizer& saved);
  void check_shapes() const;
  bool is_merged(const std::string& weight) const;
  void match_labels();
  Tensor read_table(const std::string& name) const;
  std::string place() const { return checkpoint_.path().string(); }

  const InitFromContext& run_;
  const InitFromOptions& options_;
  const Checkpoint& checkpoint_;
  const Model& model_;
  std::vector<std::string> reinitialize_;
  std::map<std::string, Shape> by_label_;          // tables of classes or tags
  std::vector<std::int64_t> label_rows_;           // of which tables
  std::vector<std::string> missing_;               // missing from the checkpoint, but required
  std::map<std::string, Shape> whole_;             // loaded unchanged
  std::map<std::string, Shape> merged_;            // loaded and merged with their adapters
  double adapter_factor_ = 1;                      // for `merged_`
  std::map<std::string, Shape> by_row_;            // vocabulary tables
  std::optional<std::vector<std::int64_t>> rows_;  // rows of `by_row_`; none: unchanged
  std::int64_t saved_rows_ = 0;
};

WeightsTaken::WeightsTaken(const InitFromContext& run,
                           const Checkpoint& checkpoint,
                           const Model& model)
    : run_(run),
      options_(run.settings.training.start_from),
      checkpoint_(checkpoint),
      model_(model) {
  check_prefixes(model.parameters());
  if (const std::string& saved = checkpoint.info().configuration; !saved.empty()) {
    const ConfigurationChange change = change_since(checkpoint, run.text.compare);
    check_configuration(change);
    if (has_adapters(checkpoint)) adapter_factor_ = adapter_factor(ModelValues(change.saved));
  }
  for (const auto& parameter : model.parameters().all()) {
    const std::string& name = parameter->name;
    const Shape& shape = parameter->global_shape;
    const bool is_table = has_prefix(name, "embedding") || has_prefix(name, "source_embedding") ||
                          has_prefix(name, "output");
    // Parameters that only the first steps use are absent once a run has completed those steps.
    const bool is_gone = parameter->active_steps && !checkpoint.has(name);
    const bool is_new = parameter->adapter && !checkpoint.has(name);
    if (is_reinitialized(name) || is_gone || is_new)
      reinitialize_.push_back(name);
    else if (!checkpoint.has(name))
      missing_.push_back(name);
    else if (is_table && shape[0] == model.body().vocabulary())
      by_row_.emplace(name, shape);
    else if (is_merged(name))
      merged_.emplace(name, shape);
    else
      whole_.emplace(name, shape);
  }
  for (const auto& each : model.parameters().centroids())
    if (!is_reinitialized(each->name) && checkpoint.has(each->name))
      whole_.emplace(each->name, each->global_shape());
  for (const auto& each : model.parameters().power_statistics())
    for (const auto& [name, values] : each->saved())
      if (is_reinitialized(name))
        reinitialize_.push_back(name);
      else if (!checkpoint.has(name))
        missing_.push_back(name);
      else
        whole_.emplace(name, values.shape());
  if (!merged_.empty() && checkpoint.info().configuration.empty())
    throw ConfigurationError(
        "{}: {} has adapters but no config with their scale; cannot merge them", key, place());
  if (!missing_.empty())
    throw ConfigurationError(
        "{}: {} has no {}; add them, or a prefix of their names, to "
        "training.init_from.reinitialize, or set the keys of the model as in the checkpoint",
        key,
        place(),
        join_first(missing_));
  match_labels();
  if (!by_row_.empty()) match_vocabulary(tokenizer_of(checkpoint, run.settings.data));
  check_shapes();
}

// Whether the checkpoint has an adapter of the weight's layer and the model has none.
bool WeightsTaken::is_merged(const std::string& weight) const {
  const auto layer = adapted_layer(checkpoint_, weight);
  return layer && !model_.parameters().find(*layer + adapter_down);
}

bool WeightsTaken::is_reinitialized(const std::string& name) const {
  return std::ranges::any_of(options_.reinitialize, [&](const std::string& beginning) {
    return has_prefix(name, beginning);
  });
}

void WeightsTaken::check_prefixes(const Parameters& parameters) const {
  for (const std::string& beginning : options_.reinitialize) {
    const auto begins = [&](const auto& parameter) {
      return has_prefix(parameter->name, beginning);
    };
    if (std::ranges::any_of(parameters.all(), begins)) continue;
    std::vector<std::string> known;
    for (const auto& parameter : parameters.all()) {
      const std::string first = parameter->name.substr(0, parameter->name.find('/'));
      if (std::ranges::find(known, first) == known.end()) known.push_back(first);
    }
    throw ConfigurationError(
        "training.init_from.reinitialize: no parameter name starts with \"{}\" (choices: {})",
        beginning,
        fmt::join(known, ", "));
  }
}

void WeightsTaken::check_configuration(const ConfigurationChange& change) const {
  std::vector<std::string> refused = change.refused;
  const auto key_of = [](const std::string& sentence) {
    return sentence.substr(0, sentence.find(':'));
  };
  // The bias table's shape depends on the number of buckets, not on the max distance.
  const auto positions = change.saved.find("model.position_embedding_type");
  const bool is_biased = positions != change.saved.end() && positions->second == "relative_bias";
  std::erase_if(refused, [&](const std::string& sentence) {
    const std::string changed = key_of(sentence);
    if (is_biased && changed == "model.relative_attention_max_distance") return false;
    return std::ranges::find(shape_checked_keys, changed) != shape_checked_keys.end();
  });
  // For adapters in both models: here others are initialized or merged with that factor.
  const auto is_here = [&](const CheckpointTensor& tensor) {
    return is_of_adapter(tensor.name) && model_.parameters().find(tensor.name);
  };
  if (std::ranges::none_of(weights_of(checkpoint_), is_here))
    std::erase_if(refused, [&](const std::string& sentence) {
      return key_of(sentence) == "training.lora.alpha";
    });
  const std::vector<std::string> all = refused;
  for (const std::string& beginning : options_.changed) {
    const auto meant = [&](const std::string& sentence) {
      const std::string changed = key_of(sentence);
      return changed == beginning || changed.starts_with(beginning + ".");
    };
    if (std::ranges::none_of(all, meant))
      run_.log.warning(
          "training.init_from.allow_config_changes: \"{}\" matches no changed key "
          "that affects the weights of {}",
          beginning,
          place());
    for (const std::string& sentence : refused)
      if (meant(sentence))
        run_.log.info("Changed intentionally (allow_config_changes): {}", sentence);
    std::erase_if(refused, meant);
  }
  if (!refused.empty())
    throw ConfigurationError(
        "{}: the model of {} differs: {}; set these keys as in the checkpoint, or add intentional "
        "changes to training.init_from.allow_config_changes",
        key,
        place(),
        fmt::join(refused, "; "));
}

void WeightsTaken::match_vocabulary(const Tokenizer& saved) {
  saved_rows_ = checkpoint_.shape_of(by_row_.begin()->first)[0];
  if (saved.vocabulary() > saved_rows_)
    throw DataError("{}: {}: expected at least {} rows (ids of its tokenizer), found {}",
                    place(),
                    by_row_.begin()->first,
                    saved.vocabulary(),
                    saved_rows_);
  const std::int64_t rows = model_.body().vocabulary();
  if (saved == run_.tokenizer && saved_rows_ == rows) return;
  constexpr const char* otherwise =
      "reinitialize the embedding and the output layer (training.init_from.reinitialize)";
  if (saved.kind() != run_.tokenizer.kind())
    throw ConfigurationError(
        "{}: data.tokenizer.type: expected {} as in {}, found {}; set it as "
        "in the checkpoint, or {}",
        key,
        name_of(saved.kind()),
        place(),
        name_of(run_.tokenizer.kind()),
        otherwise);
  if (!options_.resize_vocab)
    throw ConfigurationError(
        "{}: vocabularies differ: {} has {} ids in {} rows, this run {} in "
        "{}{}; set training.init_from.resize_vocab to true to copy the rows "
        "of common ids{}, or {}",
        key,
        place(),
        saved.vocabulary(),
        saved_rows_,
        run_.tokenizer.vocabulary(),
        rows,
        saved == run_.tokenizer ? "" : " with other tokens",
        run_.settings.data.tokenizer_model.empty()
            ? ""
            : ", or omit data.tokenizer.model to use the tokenizer of the checkpoint",
        otherwise);
  rows_ = matching_rows({saved, saved_rows_}, {run_.tokenizer, rows});
}

// Rows of an output head with labels correspond to those labels, in any order.
void WeightsTaken::match_labels() {
  const LabelSet saved = labels_of(checkpoint_.scalars(), place());
  const bool has_label_rows = whole_.contains("output/weight") || by_row_.contains("output/weight");
  if (saved.size() == 0 || run_.labels.size() == 0 || saved == run_.labels || !has_label_rows)
    return;
  constexpr const char* otherwise =
      "reinitialize the output layer: set training.init_from.reinitialize to [output] or "
      "[output/weight, output/bias]";
  for (const std::string& name : run_.labels.names()) label_rows_.push_back(saved.id_of(name));
  const auto absent = std::ranges::find(label_rows_, -1);
  if (saved.size() != run_.labels.size() || absent != label_rows_.end()) {
    const auto& names = run_.labels.names();
    const auto missing_label = static_cast<std::size_t>(absent - label_rows_.begin());
    throw ConfigurationError(
        "{}: labels differ: {} has {}, this run {}{}; {}",
        key,
        place(),
        join_first(saved.names()),
        join_first(names),
        absent == label_rows_.end() ? "" : fmt::format(" (missing \"{}\")", names[missing_label]),
        otherwise);
  }
  for (const char* const name : {"output/start", "output/transitions", "output/end"})
    if (whole_.contains(name))
      throw ConfigurationError(
          "{}: the labels of {} are in another order than those of this run, "
          "and {} is indexed by label pairs; {}",
          key,
          place(),
          name,
          otherwise);
  for (const char* const name : {"output/weight", "output/bias"})
    for (auto* const tables : {&whole_, &by_row_})
      if (auto found = tables->extract(name)) by_label_.insert(std::move(found));
}

// Where the model keys agree, shapes differ because of keys of other sections.
void WeightsTaken::check_shapes() const {
  const auto judge = [&](const std::string& name, const Shape& wanted) {
    const Shape& found = checkpoint_.shape_of(name);
    if (found != wanted)
      throw ConfigurationError(
          "{}: {}: expected shape {}, found {} in {}; set the keys of the model as in the "
          "checkpoint, or add the parameter to training.init_from.reinitialize",
          key,
          name,
          wanted.to_string(),
          found.to_string(),
          place());
  };
  for (const auto* const tables : {&whole_, &merged_, &by_label_})
    for (const auto& [name, shape] : *tables) judge(name, shape);
  for (const auto& [name, shape] : by_row_) judge(name, rows_ ? shape.with(0, saved_rows_) : shape);
}

// Returns a weight of the checkpoint after conversion, for weights that are not loaded unchanged.
Tensor WeightsTaken::read_table(const std::string& name) const {
  const DType saved = checkpoint_.dtype_of(name);
  if (saved != DType::f32 && saved != DType::f64)
    throw DataError(
        "{}: {}: expected float32 or float64, found {}", place(), name, config_name_of(saved));
  return merged_.contains(name) ? read_merged(checkpoint_, name, adapter_factor_)
                                : read_full(checkpoint_, name);
}

void WeightsTaken::fill(const Parameters& parameters) const {
  std::vector<StateTensor> whole;
  for (StateTensor& master : weights_state(parameters).tensors) {
    if (rows_ && by_row_.contains(master.name))
      gather_rows(read_table(master.name), *rows_, master);
    else if (by_label_.contains(master.name))
      gather_rows(read_table(master.name), label_rows_, master);
    else if (merged_.contains(master.name))
      gather_rows(read_table(master.name), same_rows(master.global_shape[0]), master);
    else if (whole_.contains(master.name) || by_row_.contains(master.name))
      whole.push_back(std::move(master));
  }
  load_masters(checkpoint_, whole);
  parameters.refresh_compute();
}

std::string WeightsTaken::describe() const {
  std::string text = fmt::format(
      "Initialized weights from {}, step {}; not loaded: optimizer, "
      "recurrent state, data position and step count",
      place(),
      checkpoint_.info().step);
  std::set<std::string> found;
  std::vector<std::string> adapted;
  for (const auto* const tables : {&whole_, &merged_, &by_row_, &by_label_})
    for (const auto& [name, shape] : *tables) found.insert(name);
  for (const auto& [name, shape] : merged_) {
    adapted.push_back(*adapted_layer(checkpoint_, name));
    for (const char* const part : {adapter_down, adapter_up}) found.insert(adapted.back() + part);
  }
  std::vector<std::string> left_out;
  for (const CheckpointTensor& tensor : weights_of(checkpoint_))
    if (!found.contains(tensor.name)) left_out.push_back(tensor.name);
  if (!left_out.empty()) text += fmt::format(", and {}", join_first(left_out));
  if (!adapted.empty()) text += fmt::format("; adapters merged into {}", join_first(adapted));
  if (!reinitialize_.empty()) text += fmt::format("; reinitialized: {}", join_first(reinitialize_));
  if (rows_) {
    const auto fresh = std::ranges::count(*rows_, -1);
    const auto taken = std::ssize(*rows_) - fresh;
    text += fmt::format(
        "; vocabulary rows: {} of {} copied, {} new, {} of {} in the checkpoint not used",
        taken,
        rows_->size(),
        fresh,
        saved_rows_ - taken,
        saved_rows_);
  }
  return text;
}

std::string WeightsTaken::describe_untrained() const {
  const auto is_frozen = [&](const std::string& name) {
    const Weight parameter = model_.parameters().find(name);
    return parameter && parameter->frozen;
  };
  std::vector<std::string> untrained;
  std::ranges::copy_if(reinitialize_, std::back_inserter(untrained), is_frozen);
  if (rows_ && std::ranges::count(*rows_, -1) > 0)
    for (const auto& [name, shape] : by_row_)
      if (is_frozen(name)) untrained.push_back("new rows of " + name);
  if (untrained.empty()) return "";
  return fmt::format("Reinitialized parameters are not trained, because {}: {}",
                     model_.parameters().tuning().adapters.rank
                         ? "training.lora.modules_to_save does not contain them"
                         : "training.frozen_parameters contains them",
                     join_first(untrained));
}

}  // namespace

void require_start(const ConfigPath& path, const Communicator& world) {
  if (!path_exists(path, world))
    throw DataError("{}: no such run or checkpoint{}", path.describe(), path.not_found_hint());
}

Scalars init_from(const InitFromContext& run, Model& model) {
  if (run.settings.training.start_from.path.empty()) return {};
  const Checkpoint checkpoint = open_meant(run);
  const WeightsTaken taken(run, checkpoint, model);
  taken.fill(model.parameters());
  run.log.info("{}", taken.describe());
  const DataOptions& data = run.settings.data;
  if (data.starts_with_saved && data.saved_tokenizer == run.tokenizer &&
      run.tokenizer.kind() != TokenizerKind::bytes)
    run.log.info("Using the tokenizer of {}{}",
                 checkpoint.path().string(),
                 data.tokenizer_model.empty() ? ""
                                              : fmt::format("; data.tokenizer.model {} not found",
                                                            data.tokenizer_model.text()));
  if (const std::string told = taken.describe_untrained(); !told.empty())
    run.log.warning("{}", told);
  const Scalars& saved = checkpoint.scalars();
  if (tokenizer_of(checkpoint, run.settings.data) == run.tokenizer)
    return import_scalars(saved, false);
  Scalars retained;
  for (const char* const name : {import_folder_scalar, import_positions_scalar})
    if (const auto found = saved.values().find(name); found != saved.values().end())
      retained.values().insert(*found);
  return retained;
}

}  // namespace longspan
