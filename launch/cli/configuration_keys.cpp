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

// Warns about keys that the task does not read.
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
  unless({"data.global_batch_size", "data.seq_length"}, streams);
  unless({"data.global_batch_tokens",
          "data.max_length",
          "data.overlong_examples",
          "data.pad_to_multiple_of",
          "data.tokenizer.sampling_alpha"},
         buckets);
  unless({"data.validation_target", "data.test_target"}, targets);
  unless({"training.validation.num_decoded_examples",
          "data.train_alignments",
          "data.tokenizer.decoder_start_token",
          "data.tokenizer.eos_token",
          "data.tokenizer.forced_bos_token",
          "data.bleu_tokenizer"},
         pairs);
  unless({"ppo.gamma",
          "ppo.gae_lambda",
          "ppo.num_epochs",
          "ppo.num_minibatches",
          "ppo.deterministic_eval",
          "ppo.clip_range",
          "ppo.vf_coef",
          "ppo.ent_coef"},
         [](const Configuration& of) { return of.task_kind().is_policy; });
  table.warn("data.overlong_examples", [&configuration]() -> std::string {
    const bool reads_images = configuration.data.format == DataFormat::images;
    return reads_images ? "data.format is images, which are not truncated" : "";
  });
  table.warn("data.tokenizer.sampling_alpha", [&configuration]() -> std::string {
    const DataOptions& data = configuration.data;
    if (data.tokenizer != TokenizerKind::sentencepiece)
      return "data.tokenizer.type is not sentencepiece";
    const bool is_trained = trains_tokenizer(data);
    return is_trained && data.tokenizer_kind != SentencePieceModelType::unigram
               ? "data.tokenizer.model_type is not unigram"
               : "";
  });
}

// Checks that the task can read the data.
void check_data(OptionTable& table, const Configuration& configuration) {
  table.check({"data.tokenizer.type", "run.task"}, [&configuration]() -> std::string {
    if (configuration.data.tokenizer != TokenizerKind::tokenizer_json || reads_text(configuration))
      return "";
    return "data.tokenizer.type: huggingface requires run.task: language_modeling, translation, "
           "classification or tagging, found " +
           configuration.task;
  });
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
  table.check({"data.format", "run.task"}, [&configuration]() -> std::string {
    const bool reads_images = configuration.data.format == DataFormat::images;
    if (!reads_images || configuration.task == "classification" ||
        configuration.task == "image_generation")
      return "";
    return "data.format: images requires run.task: classification or image_generation, found " +
           configuration.task;
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
  for (const char* key : {"data.shuffle",
                          "data.documents.reset_attention_mask",
                          "data.documents.sample_by",
                          "data.documents.end_token"})
    table.warn(key, [&configuration]() -> std::string {
      return configuration.task == "language_modeling" ? "" : "run.task is " + configuration.task;
    });
  for (const char* key :
       {"data.documents.sample_by", "data.documents.text_field", "data.documents.end_token"})
    table.warn(key, [&configuration, key]() -> std::string {
      return configuration.task == "language_modeling"
                 ? unread_document_key(configuration.data, key)
                 : "run.task is " + configuration.task;
    });
  table.check({"data.format", "run.task"}, [&configuration]() -> std::string {
    if (configuration.data.format != DataFormat::tokens ||
        configuration.task == "language_modeling")
      return "";
    return "data.format: tokens requires run.task: language_modeling, found " + configuration.task;
  });
}

void check_training(OptionTable& table, const Configuration& configuration) {
  table.check({"training.scheduled_sampling.method", "run.task"},
              [&configuration]() -> std::string {
                if (configuration.training.sampling.mixing == ScheduledSamplingMethod::none ||
                    configuration.task == "translation")
                  return "";
                return "training.scheduled_sampling.method requires run.task: translation, found " +
                       configuration.task;
              });
  table.check({"training.label_smoothing", "run.task"}, [&configuration]() -> std::string {
    const TaskSpec& task = configuration.task_kind();
    if (configuration.training.label_smoothing.share == 0 || !task.has_labels) return "";
    return fmt::format("training.label_smoothing does not support run.task: {}",
                       configuration.task);
  });
}

// Warns about keys that have no effect because of another section.
void warn_of_idle_keys(OptionTable& table, const Configuration& configuration) {
  for (const char* const key : {"training.validation.interval", "training.validation.max_batches"})
    table.warn(key, [&configuration]() -> std::string {
      return configuration.data.validation.empty() ? "data.validation is empty" : "";
    });
  for (const char* const key : {"precision.allow_tf32", "parallel.gpu_backend"})
    table.warn(key, [&configuration]() -> std::string {
      return configuration.run.device == DeviceChoice::cpu ? "run.device is cpu" : "";
    });
}

void declare_family(Configuration& configuration, const Family& family) {
  OptionTable& table = configuration.table;
  configuration.body = family.declare(table, planned_setting(configuration));
  if (table.has("model.num_future_tokens"))
    table.check({"model.num_future_tokens", "run.task"}, [&configuration, &table]() -> std::string {
      if (configuration.task == "language_modeling" || table.is_default("model.num_future_tokens"))
        return "";
      return "model.num_future_tokens requires run.task: language_modeling, found " +
             configuration.task;
    });
  for (const auto& [key, task] : {std::pair{"model.use_crf", "tagging"},
                                  {"model.pooling", "classification"},
                                  {"model.add_pooling_layer", "classification"}})
    if (table.has(key))
      table.warn(key, [&configuration, task = std::string_view(task)]() -> std::string {
        return configuration.task == task ? "" : "run.task is " + configuration.task;
      });
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
  table.warn("data.tag_format", [&configuration]() -> std::string {
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
  table.warn("metrics.num_images", [&configuration]() -> std::string {
    const bool draws = static_cast<bool>(configuration.task_kind().generate_images);
    return draws ? "" : "run.task is " + configuration.task;
  });
  warn_of_idle_keys(table, configuration);
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
