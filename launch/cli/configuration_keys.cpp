#include "launch/cli/configuration_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace longspan {
namespace {

// Returns the data options before a run that starts from weights: their checkpoint may have a
// tokenizer.
DataOptions data_before_start(const Configuration& configuration) {
  DataOptions data = configuration.data;
  if (!configuration.training.start_from.path.empty() && data.tokenizer_model.empty())
    data.saved_tokenizer.emplace();
  return data;
}

// Returns the number of ids of the tokenizer and the task, or 0 where only the data determine it.
std::int64_t vocabulary_before_start(const Configuration& configuration) {
  const DataOptions data = data_before_start(configuration);
  const bool has_ids = reads_text(configuration) && data.format != DataFormat::images;
  const std::int64_t ids = has_ids ? configured_vocabulary(data) : 0;
  const auto& extra_ids = configuration.task_kind().extra_ids;
  // A trained tokenizer may include the ids that the task adds to others.
  return ids == 0 || !extra_ids || trains_tokenizer(data) ? ids : ids + extra_ids(data);
}

// Returns the inputs from which the configuration's model is built, as far as they are set.
PlannedBuildOptions planned_setting(const Configuration& configuration) {
  return [&configuration] {
    const ParallelOptions& parallel = configuration.parallel;
    ProcessMesh mesh;
    mesh.shape = {.context = static_cast<int>(parallel.context),
                  .tensor = static_cast<int>(parallel.tensor),
                  .sequence = parallel.sequence};
    return model_setting(
        configuration, vocabulary_before_start(configuration), mesh, Device::cpu());
  };
}

// Declares the task and model family keys.
void declare_kinds(Configuration& configuration) {
  OptionTable& table = configuration.table;
  std::vector<std::string> names;
  for (const Family& known : families()) names.push_back(known.name);
  std::vector<std::string> tasks;
  for (const TaskSpec& known : task_kinds()) tasks.push_back(known.name);
  table.add("run.task",
            configuration.task,
            "training task; determines the input data, the metrics and the outputs",
            one_of(tasks),
            affects_weights());
  table.add(family_key,
            configuration.family,
            "model family; determines the other keys of the section",
            one_of(names),
            required(),
            affects_weights());
}

// Adds the rules on keys that only some tasks read.
void add_task_rules(OptionTable& table) {
  const auto tasks = [](const auto& is_reader) {
    std::vector<std::string> names;
    for (const TaskSpec& known : task_kinds())
      if (is_reader(known)) names.push_back(known.name);
    require(!names.empty(), "no task reads a key that tasks read");
    return is("run.task", names);
  };
  const auto only = [&](std::initializer_list<const char*> keys, const Condition& condition) {
    for (const char* const key : keys) table.add_rule(key, only_with(condition));
  };
  only({"data.global_batch_size", "data.seq_length"},
       tasks([](const TaskSpec& task) { return task.reads_streams; }));
  only({"data.global_batch_tokens",
        "data.max_length",
        "data.overlong_examples",
        "data.pad_to_multiple_of",
        "data.tokenizer.sampling_alpha"},
       tasks([](const TaskSpec& task) { return !task.reads_streams; }));
  only({"data.documents.sample_by", "data.documents.text_field", "data.documents.end_token"},
       is("run.task", {"language_modeling"}));
  only({"data.overlong_examples"}, is_not("data.format", "images"));
  only({"training.validation.interval", "training.validation.max_batches"},
       is_set("data.validation"));
  only({"precision.allow_tf32", "parallel.gpu_backend"}, is_not("run.device", "cpu"));
  table.add_rule("training.label_smoothing",
                 needs(tasks([](const TaskSpec& task) { return !task.has_labels; })));
}

// Checks that the task can read the data.
void check_data(OptionTable& table, const Configuration& configuration) {
  table.check(
      {"data.tokenizer.type", "data.format", "run.task"}, [&configuration]() -> std::string {
        constexpr std::array<std::string_view, 3> readers = {
            "translation", "classification", "tagging"};
        const DataOptions& data = configuration.data;
        const bool reads_numbers =
            data.format == DataFormat::text && std::ranges::count(readers, configuration.task) > 0;
        if (data.tokenizer != TokenizerKind::ids || data.format == DataFormat::tokens ||
            reads_numbers)
          return "";
        return "data.tokenizer.type: none requires data.format: tokens, or run.task: translation, "
               "classification or tagging, found " +
               configuration.task;
      });
  table.check({"data.tokenizer.type", "data.tokenizer.model_type"}, [&configuration] {
    return validate_tokenizer_type(data_before_start(configuration));
  });
  table.check({"data.train", "run.task"}, [&configuration]() -> std::string {
    const DataOptions& data = configuration.data;
    if (configuration.task == "language_modeling") return "";
    for (const auto& [key, list] : {std::pair{"data.train", &data.train},
                                    std::pair{"data.validation", &data.validation},
                                    std::pair{"data.test", &data.test}})
      if (!list->is_one())
        return fmt::format(
            "{}: several files or weights ({}) require run.task: language_modeling, found {}",
            key,
            list->text(),
            configuration.task);
    return "";
  });
  table.check({"data.documents.end_token", "data.tokenizer.type", "data.documents.sample_by"},
              [&configuration]() -> std::string {
                return configuration.task == "language_modeling"
                           ? validate_end_token(configuration.data)
                           : "";
              });
  for (const char* key :
       {"data.documents.sample_by", "data.documents.text_field", "data.documents.end_token"})
    table.warn(key, [&configuration, key] { return unread_document_key(configuration.data, key); });
}

void declare_family(Configuration& configuration, const Family& family) {
  OptionTable& table = configuration.table;
  configuration.body = family.declare(table, planned_setting(configuration));
  table.check({"run.task", family_key}, [&configuration, &family]() -> std::string {
    if (std::ranges::count(family.tasks, configuration.task) > 0) return "";
    return fmt::format("model.family: {} requires run.task: {}, found {}",
                       family.name,
                       fmt::join(family.tasks, " or "),
                       configuration.task);
  });
}

}  // namespace

void declare_all(Configuration& configuration, const Family* family) {
  OptionTable& table = configuration.table;
  declare(table, configuration.run);
  declare_kinds(configuration);
  declare(table, configuration.data);
  declare(table, configuration.training);
  check_data(table, configuration);
  declare(table, configuration.parallel);
  declare(table, configuration.memory);
  declare(table, configuration.precision);
  declare(table, configuration.checkpoint);
  declare(table, configuration.metrics);
  add_task_rules(table);
  table.warn("data.tokenizer.sampling_alpha", [&configuration]() -> std::string {
    const DataOptions& data = configuration.data;
    return trains_tokenizer(data) && data.tokenizer_kind != SentencePieceModelType::unigram
               ? "data.tokenizer.model_type is not unigram"
               : "";
  });
  table.check({"checkpoint.best_metric",
               "run.task",
               "data.validation",
               "training.validation.num_decoded_examples"},
              [&configuration] { return validate_best_metric(configuration); });
  table.check({"metrics.num_samples", "run.task", "data.validation"},
              [&configuration] { return validate_samples(configuration); });
  table.check({"run.task",
               "data.format",
               "data.tokenizer.type",
               "data.train",
               "data.train_target",
               "data.validation",
               "data.validation_target",
               "data.train_alignments",
               "data.tokenizer.sampling_alpha",
               "data.test",
               "data.test_target"},
              [&configuration] {
                return configuration.task_kind().problem(data_before_start(configuration));
              });
  if (family != nullptr) declare_family(configuration, *family);
}

bool reads_text(const RunConfig& settings) {
  constexpr std::array<std::string_view, 4> readers = {
      "language_modeling", "translation", "classification", "tagging"};
  return std::ranges::count(readers, settings.task) > 0;
}

void declare_checks(Configuration& configuration) {
  configuration.table.check(
      {"data.seq_length", "parallel.context_parallel_size"},
      [&configuration] { return validate_segment(configuration, configuration.parallel.context); });
  // The gradient of a logit is at most the scale divided by the tokens of a step.
  configuration.table.check({"precision.loss_scale.init_scale"}, [&configuration]() -> std::string {
    constexpr double min_normal = 0x1p-14;
    const BatchDescription words = configuration.task_kind().words(configuration.data);
    const auto tokens = static_cast<double>(words.counted);
    const double scale = configuration.precision.loss_scale.initial;
    if (configuration.precision.compute != DType::f16 || words.counted == 0 ||
        scale / tokens >= min_normal)
      return "";
    return fmt::format(
        "precision.loss_scale.init_scale: expected at least {}, found {}: with {} tokens per step "
        "({}), all gradients underflow float16",
        std::exp2(std::ceil(std::log2(tokens * min_normal))),
        scale,
        tokens,
        words.counted_keys);
  });
}

void declare_batch_checks(Configuration& configuration) {
  const auto ranks = [&configuration] { return configuration.parallel.data.value_or(1); };
  configuration.table.check(
      {"data.global_batch_size", "parallel.data_parallel_size"},
      [&configuration, ranks] { return validate_batch(configuration, ranks()); });
  configuration.table.check(
      {"ppo.num_minibatches", "data.global_batch_size", "parallel.data_parallel_size"},
      [&configuration, ranks]() -> std::string {
        if (!validate_batch(configuration, ranks()).empty()) return "";
        return validate_minibatch(configuration, ranks());
      });
  configuration.table.check({"training.gradient_accumulation_steps",
                             "data.global_batch_size",
                             "parallel.data_parallel_size"},
                            [&configuration, ranks]() -> std::string {
                              if (!validate_batch(configuration, ranks()).empty() ||
                                  !validate_minibatch(configuration, ranks()).empty())
                                return "";
                              return validate_accumulation(configuration,
                                                           configuration.parallel.data);
                            });
}

}  // namespace longspan
