#include "launch/configuration_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace longspan {
namespace {

// What the model of a configuration is built for, as far as it says.
PlannedSetting planned_setting(const Configuration& configuration) {
  return [&configuration] {
    const ParallelOptions& parallel = configuration.parallel;
    ProcessMesh mesh;
    mesh.shape = {.context = static_cast<int>(parallel.context),
                  .tensor = static_cast<int>(parallel.tensor),
                  .sequence = parallel.sequence};
    return model_setting(configuration, 0, mesh, Device::cpu());
  };
}

// What is learnt, and by what.
void declare_kinds(Configuration& configuration) {
  OptionTable& table = configuration.table;
  std::vector<std::string> names;
  for (const Family& known : families()) names.push_back(known.name);
  std::vector<std::string> tasks;
  for (const TaskKind& known : task_kinds()) tasks.push_back(known.name);
  table.add("run.task",
            configuration.task,
            "what is learnt; it decides what is read, how it is measured and what is written",
            one_of(tasks),
            fixes_weights());
  table.add(family_key,
            configuration.family,
            "the kind of model; it decides which other keys the section has",
            one_of(names),
            required(),
            fixes_weights());
}

// Keys that the task does not read.
void warn_of_unread_keys(OptionTable& table, const Configuration& configuration) {
  const auto unless = [&](const std::vector<std::string>& keys, const auto& reads) {
    for (const std::string& key : keys)
      table.warn(key, [&configuration, reads]() -> std::string {
        return reads(configuration) ? "" : "run.task is " + configuration.task;
      });
  };
  const auto streams = [](const Configuration& of) { return of.task_kind().reads_streams; };
  const auto buckets = [](const Configuration& of) { return !of.task_kind().reads_streams; };
  const auto pairs = [](const Configuration& of) { return of.task == "translation"; };
  const auto targets = [pairs](const Configuration& of) {
    return pairs(of) || of.data.format == DataFormat::images;
  };
  unless({"data.batch", "data.segment"}, streams);
  unless({"data.batch_tokens",
          "data.longest",
          "data.too_long",
          "data.length_multiple",
          "data.subword_sampling"},
         buckets);
  unless({"data.validation_target", "data.test_target"}, targets);
  unless({"training.validation_decoded",
          "data.train_alignments",
          "data.begin_token",
          "data.end_token",
          "data.first_token",
          "data.bleu_tokenizer"},
         pairs);
  unless({"reinforcement.discount",
          "reinforcement.lambda",
          "reinforcement.epochs",
          "reinforcement.minibatches",
          "reinforcement.greedy",
          "reinforcement.clip",
          "reinforcement.value_weight",
          "reinforcement.entropy_weight"},
         [](const Configuration& of) { return of.task_kind().acts; });
  table.warn("data.too_long", [&configuration]() -> std::string {
    const bool reads_images = configuration.data.format == DataFormat::images;
    return reads_images ? "data.format is images, which are not cut" : "";
  });
  table.warn("data.subword_sampling", [&configuration]() -> std::string {
    const DataOptions& data = configuration.data;
    if (data.tokenizer != TokenizerKind::sentencepiece)
      return "data.tokenizer is not sentencepiece";
    const bool is_trained = trains_tokenizer(data);
    return is_trained && data.tokenizer_kind != SubwordKind::unigram
               ? "data.tokenizer_kind is not unigram"
               : "";
  });
}

// The data as a run finds them that starts from weights: their checkpoint may have a tokenizer.
DataOptions data_before_start(const Configuration& configuration) {
  DataOptions data = configuration.data;
  if (!configuration.training.start_from.path.empty() && data.tokenizer_model.empty())
    data.saved_tokenizer.emplace();
  return data;
}

// Of data that the task can read.
void check_data(OptionTable& table, const Configuration& configuration) {
  table.check({"data.tokenizer", "run.task"}, [&configuration]() -> std::string {
    if (configuration.data.tokenizer != TokenizerKind::tokenizer_json || reads_text(configuration))
      return "";
    return "data.tokenizer: tokenizer_json is for run.task: language_model, translation, "
           "classification and tagging; run.task is " +
           configuration.task;
  });
  table.check({"data.tokenizer", "data.format", "run.task"}, [&configuration]() -> std::string {
    constexpr std::array<std::string_view, 3> readers = {
        "translation", "classification", "tagging"};
    const DataOptions& data = configuration.data;
    const bool reads_numbers =
        data.format == DataFormat::text && std::ranges::count(readers, configuration.task) > 0;
    if (data.tokenizer != TokenizerKind::ids || data.format == DataFormat::tokens || reads_numbers)
      return "";
    return "data.tokenizer: ids is for data.format: tokens, files of ids that are there already, "
           "and for run.task: translation, classification and tagging; run.task is " +
           configuration.task;
  });
  table.check({"data.tokenizer", "data.tokenizer_kind"}, [&configuration] {
    return tokenizer_kind_problem(data_before_start(configuration));
  });
  table.check({"data.format", "run.task"}, [&configuration]() -> std::string {
    const bool reads_images = configuration.data.format == DataFormat::images;
    if (!reads_images || configuration.task == "classification" || configuration.task == "pixels")
      return "";
    return "data.format: images is for run.task: classification and pixels; run.task is " +
           configuration.task;
  });
  table.check({"data.train", "run.task"}, [&configuration]() -> std::string {
    const DataOptions& data = configuration.data;
    if (configuration.task == "language_model") return "";
    for (const auto& [key, list] : {std::pair{"data.train", &data.train},
                                    std::pair{"data.validation", &data.validation},
                                    std::pair{"data.test", &data.test}})
      if (!list->is_one())
        return fmt::format(
            "{}: found {}; several files and weights are for run.task: language_model; run.task is "
            "{}",
            key,
            list->text(),
            configuration.task);
    return "";
  });
  for (const char* key :
       {"data.shuffle", "data.documents_apart", "data.documents", "data.end_of_text"})
    table.warn(key, [&configuration]() -> std::string {
      return configuration.task == "language_model" ? "" : "run.task is " + configuration.task;
    });
  for (const char* key : {"data.documents", "data.text_field", "data.end_of_text"})
    table.warn(key, [&configuration, key]() -> std::string {
      return configuration.task == "language_model" ? unread_document_key(configuration.data, key)
                                                    : "run.task is " + configuration.task;
    });
  table.check({"data.format", "run.task"}, [&configuration]() -> std::string {
    if (configuration.data.format != DataFormat::tokens || configuration.task == "language_model")
      return "";
    return "data.format: tokens is for run.task: language_model; run.task is " + configuration.task;
  });
}

void check_training(OptionTable& table, const Configuration& configuration) {
  table.check({"training.sampling", "run.task"}, [&configuration]() -> std::string {
    if (configuration.training.sampling.mixing == InputMixing::none ||
        configuration.task == "translation")
      return "";
    return "training.sampling is for run.task: translation; run.task is " + configuration.task;
  });
  table.check({"training.label_smoothing", "run.task"}, [&configuration]() -> std::string {
    const TaskKind& task = configuration.task_kind();
    if (configuration.training.label_smoothing.share == 0 || !task.has_labels) return "";
    return fmt::format("training.label_smoothing is for targets of a vocabulary; run.task is {}",
                       configuration.task);
  });
}

// Keys that another section leaves without effect.
void warn_of_idle_keys(OptionTable& table, const Configuration& configuration) {
  for (const char* const key : {"training.validation_every", "training.validation_batches"})
    table.warn(key, [&configuration]() -> std::string {
      return configuration.data.validation.empty() ? "data.validation is empty" : "";
    });
  for (const char* const key : {"precision.tf32", "parallel.transport"})
    table.warn(key, [&configuration]() -> std::string {
      return configuration.run.device == DeviceChoice::cpu ? "run.device is cpu" : "";
    });
}

void declare_family(Configuration& configuration, const Family& family) {
  OptionTable& table = configuration.table;
  configuration.body = family.declare(table, planned_setting(configuration));
  if (table.has("model.targets"))
    table.check({"model.targets", "run.task"}, [&configuration, &table]() -> std::string {
      if (configuration.task == "language_model" || table.is_default("model.targets")) return "";
      return "model.targets is for run.task: language_model, where each position has a target; "
             "run.task is " +
             configuration.task;
    });
  for (const auto& [key, task] : {std::pair{"model.tag_readout", "tagging"},
                                  {"model.pooling", "classification"},
                                  {"model.class_layer", "classification"}})
    if (table.has(key))
      table.warn(key, [&configuration, task = std::string_view(task)]() -> std::string {
        return configuration.task == task ? "" : "run.task is " + configuration.task;
      });
  table.check({"run.task", family_key}, [&configuration, &family]() -> std::string {
    if (std::ranges::count(family.tasks, configuration.task) > 0) return "";
    return fmt::format("model.family: {} learns run.task: {}, found {}",
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
  table.warn("data.tag_columns", [&configuration]() -> std::string {
    return configuration.task == "tagging" ? "" : "run.task is " + configuration.task;
  });
  declare(table, configuration.training);
  warn_of_unread_keys(table, configuration);
  check_data(table, configuration);
  check_training(table, configuration);
  declare(table, configuration.parallel);
  declare(table, configuration.memory);
  declare(table, configuration.precision);
  declare(table, configuration.checkpoint);
  declare(table, configuration.metrics);
  table.warn("metrics.images", [&configuration]() -> std::string {
    const bool draws = static_cast<bool>(configuration.task_kind().draw);
    return draws ? "" : "run.task is " + configuration.task;
  });
  warn_of_idle_keys(table, configuration);
  table.check(
      {"checkpoint.keep_best", "run.task", "data.validation", "training.validation_decoded"},
      [&configuration] { return keep_best_problem(configuration); });
  table.check({"metrics.samples", "run.task", "data.validation"},
              [&configuration] { return samples_problem(configuration); });
  table.check({"run.task",
               "data.format",
               "data.tokenizer",
               "data.train",
               "data.train_target",
               "data.validation",
               "data.validation_target",
               "data.train_alignments",
               "data.subword_sampling",
               "data.test",
               "data.test_target"},
              [&configuration] {
                return configuration.task_kind().problem(data_before_start(configuration));
              });
  if (family != nullptr) declare_family(configuration, *family);
}

bool reads_text(const Settings& settings) {
  constexpr std::array<std::string_view, 4> readers = {
      "language_model", "translation", "classification", "tagging"};
  return std::ranges::count(readers, settings.task) > 0;
}

void declare_checks(Configuration& configuration) {
  configuration.table.check({"data.segment", "parallel.context"}, [&configuration] {
    return segment_problem(configuration, configuration.parallel.context);
  });
  // The gradient of a logit is at most the scale over the tokens of a step.
  configuration.table.check({"precision.loss_scale"}, [&configuration]() -> std::string {
    constexpr double smallest_normal = 0x1p-14;
    const BatchWords words = configuration.task_kind().words(configuration.data);
    const auto tokens = static_cast<double>(words.counted);
    const double scale = configuration.precision.loss_scale.initial;
    if (configuration.precision.compute != DType::f16 || words.counted == 0 ||
        scale / tokens >= smallest_normal)
      return "";
    return fmt::format(
        "precision.loss_scale: found {}; with {} tokens a step ({}) all gradients underflow f16; "
        "wanted at least {}",
        scale,
        tokens,
        words.counted_keys,
        std::exp2(std::ceil(std::log2(tokens * smallest_normal))));
  });
}

void declare_batch_checks(Configuration& configuration) {
  const auto ranks = [&configuration] { return configuration.parallel.data.value_or(1); };
  configuration.table.check({"data.batch", "parallel.data"}, [&configuration, ranks] {
    return batch_problem(configuration, ranks());
  });
  configuration.table.check({"reinforcement.minibatches", "data.batch", "parallel.data"},
                            [&configuration, ranks]() -> std::string {
                              if (!batch_problem(configuration, ranks()).empty()) return "";
                              return minibatch_problem(configuration, ranks());
                            });
  configuration.table.check({"training.accumulation", "data.batch", "parallel.data"},
                            [&configuration, ranks]() -> std::string {
                              if (!batch_problem(configuration, ranks()).empty() ||
                                  !minibatch_problem(configuration, ranks()).empty())
                                return "";
                              return accumulation_problem(configuration,
                                                          configuration.parallel.data);
                            });
}

}  // namespace longspan
