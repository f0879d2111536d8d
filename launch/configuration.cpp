#include "launch/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "framework/core/option_text.h"
#include "launch/written_value.h"
#include "launch/yaml.h"

namespace longspan {
namespace {

constexpr std::array<std::string_view, 4> layout_keys = {
    "parallel.data", "parallel.context", "parallel.tensor", "parallel.sequence"};

const Family* family_named(const std::string& name) {
  for (const Family& family : families()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

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

// How the ranks of a training divide its batch.
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

// For each key that a family declares, the families that do.
std::map<std::string, std::vector<std::string>> owners_of_keys() {
  std::map<std::string, std::vector<std::string>> owners;
  for (const Family& family : families()) {
    OptionTable table;
    const BodyFactory unused = family.declare(table, {});
    for (const OptionDescription& option : table.reference()) {
      owners[option.key].push_back(family.name);
    }
  }
  return owners;
}

// Keys of other families get a sentence of their own.
void note_keys_of_others(OptionTable& table, const Family& family) {
  for (const auto& [key, names] : owners_of_keys()) {
    if (table.has(key)) continue;
    table.note_elsewhere(
        key,
        fmt::format("is a key of family {}, not of {}", fmt::join(names, " and "), family.name));
  }
}

// The family that is asked for last, before anything else is judged.
const Family* chosen_family(const std::vector<Assignment>& assignments) {
  const Family* family = nullptr;
  for (const Assignment& assignment : assignments) {
    if (assignment.key != family_key || assignment.kind != Assignment::Kind::scalar) continue;
    family = family_named(assignment.scalars.front().text);
  }
  return family;
}

// Where a text could not be read to its end, what it does not give is no mistake.
void refuse_unread(const std::vector<WrittenKeys>& layers) {
  if (std::ranges::all_of(layers, &WrittenKeys::whole)) return;
  OptionTable complaints;
  for (const WrittenKeys& layer : layers)
    for (const Complaint& complaint : layer.complaints) complaints.complain(complaint);
  complaints.finish();
}

// All that was written, with what was wrong before it was understood.
struct Written {
  std::vector<Assignment> assignments;
  std::vector<Complaint> complaints;
};

Written read_layers(const ConfigurationText& source) {
  std::vector<WrittenKeys> layers;
  if (!source.file.empty()) layers.push_back(read_yaml(source.text, source.file));
  for (const std::string& setting : source.settings) layers.push_back(read_setting(setting));

  refuse_unread(layers);
  if (source.of_another_job)
    std::erase_if(layers.front().assignments, [](const Assignment& assignment) {
      return std::ranges::count(layout_keys, assignment.key) > 0;
    });
  Written written;
  for (WrittenKeys& layer : layers) {
    std::ranges::move(layer.assignments, std::back_inserter(written.assignments));
    std::ranges::move(layer.complaints, std::back_inserter(written.complaints));
  }
  return written;
}

// The table has all mistakes in the assignments.
std::unique_ptr<Configuration> judge(const ConfigurationText& source,
                                     const Family* family,
                                     const std::vector<Assignment>& assignments) {
  auto configuration = std::make_unique<Configuration>();
  declare_all(*configuration, family);
  declare_checks(*configuration);
  if (!source.of_another_job) declare_batch_checks(*configuration);
  if (family != nullptr) note_keys_of_others(configuration->table, *family);
  if (source.home) configuration->table.set_home(*source.home);
  configuration->table.assign(assignments);
  return configuration;
}

// Under that family, whichever the assignments name.
std::vector<Complaint> mistakes_under(const ConfigurationText& source,
                                      const Family& family,
                                      std::vector<Assignment>& assignments) {
  bool is_named = false;
  for (Assignment& assignment : assignments) {
    if (assignment.key != family_key) continue;
    assignment.kind = Assignment::Kind::scalar;
    assignment.scalars = {{family.name}};
    is_named = true;
  }
  if (!is_named)
    assignments.push_back(
        {family_key, Assignment::Kind::scalar, {{family.name}}, Mark{source.file}});
  return judge(source, &family, assignments)->table.mistakes();
}

// Which one is meant is not known: a mistake is one under every family that has the key. There may
// be a hundred thousand of them.
std::vector<Complaint> mistakes_under_every_family(const ConfigurationText& source,
                                                   std::vector<Assignment> assignments) {
  struct Judgement {
    std::vector<Complaint> mistakes;  // of keys that the family knows
    std::set<std::string> lines;      // of the same
    std::set<std::string, std::less<>> unknown_keys;
  };
  const auto line = [](const Complaint& complaint) {
    return complaint.mark.to_string() + complaint.sentence;
  };
  std::vector<Complaint> unknown;  // to the first family
  std::vector<Judgement> judgements;
  for (const Family& family : families()) {
    Judgement& judgement = judgements.emplace_back();
    for (Complaint& mistake : mistakes_under(source, family, assignments)) {
      if (mistake.unknown_key) {
        judgement.unknown_keys.insert(mistake.key);
        if (judgements.size() == 1) unknown.push_back(std::move(mistake));
      } else {
        judgement.lines.insert(line(mistake));
        judgement.mistakes.push_back(std::move(mistake));
      }
    }
  }
  std::vector<Complaint> found;
  std::vector<std::string> known;
  for (const auto& [key, names] : owners_of_keys()) known.push_back(key);
  std::size_t to_any = 0;
  for (Complaint& mistake : unknown) {
    const bool is_one = std::ranges::all_of(judgements, [&](const Judgement& other) {
      return other.unknown_keys.contains(mistake.key);
    });
    if (!is_one) continue;
    if (mistake.key.starts_with("model.")) {
      const std::string near = ++to_any > most_told ? "" : nearest(mistake.key, known);
      mistake.sentence = fmt::format("{} is not a key of any family{}",
                                     mistake.key,
                                     near.empty() ? "" : "; did you mean \"" + near + "\"?");
    }
    found.push_back(std::move(mistake));
  }
  std::set<std::string> told;
  for (Judgement& judgement : judgements) {
    for (Complaint& mistake : judgement.mistakes) {
      const std::string told_as = line(mistake);
      const bool is_one = std::ranges::all_of(judgements, [&](const Judgement& other) {
        return other.unknown_keys.contains(mistake.key) || other.lines.contains(told_as);
      });
      if (is_one && told.insert(told_as).second) found.push_back(std::move(mistake));
    }
  }
  return found;
}

// Among them that there is no such family.
std::vector<Complaint> mistakes_without_family(const ConfigurationText& source,
                                               const std::vector<Assignment>& assignments) {
  std::vector<Complaint> mistakes = mistakes_under_every_family(source, assignments);
  std::vector<Assignment> of_all = assignments;
  std::erase_if(of_all, [](const Assignment& assignment) {
    return assignment.key.starts_with("model.") && assignment.key != family_key;
  });
  for (Complaint& mistake : judge(source, nullptr, of_all)->table.mistakes())
    if (mistake.key == family_key) mistakes.push_back(std::move(mistake));
  return mistakes;
}

// Keys that the task does not read.
void warn_of_other_tasks(OptionTable& table, const Configuration& configuration) {
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
  unless({"training.validation_decoded", "data.begin_token", "data.end_token", "data.first_token"},
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
    const bool is_trained = data.tokenizer_model.empty();
    return is_trained && data.tokenizer_kind != SubwordKind::unigram
               ? "data.tokenizer_kind is not unigram"
               : "";
  });
  table.check({"data.tokenizer", "run.task"}, [&configuration]() -> std::string {
    constexpr std::array<std::string_view, 4> readers = {
        "language_model", "translation", "classification", "tagging"};
    if (configuration.data.tokenizer != TokenizerKind::tokenizer_json ||
        std::ranges::count(readers, configuration.task) > 0)
      return "";
    return "data.tokenizer: tokenizer_json is for run.task: language_model, translation, "
           "classification and tagging; run.task is " +
           configuration.task;
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
  for (const char* key : {"data.shuffle", "data.documents_apart"})
    table.warn(key, [&configuration]() -> std::string {
      return configuration.task == "language_model" ? "" : "run.task is " + configuration.task;
    });
  table.check({"data.format", "run.task"}, [&configuration]() -> std::string {
    if (configuration.data.format != DataFormat::tokens || configuration.task == "language_model")
      return "";
    return "data.format: tokens is for run.task: language_model; run.task is " + configuration.task;
  });
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

}  // namespace

void declare_all(Configuration& configuration, const Family* family) {
  OptionTable& table = configuration.table;
  std::vector<std::string> names;
  for (const Family& known : families()) names.push_back(known.name);
  declare(table, configuration.run);
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
  declare(table, configuration.data);
  table.warn("data.tag_columns", [&configuration]() -> std::string {
    return configuration.task == "tagging" ? "" : "run.task is " + configuration.task;
  });
  declare(table, configuration.training);
  warn_of_other_tasks(table, configuration);
  declare(table, configuration.parallel);
  declare(table, configuration.memory);
  declare(table, configuration.precision);
  declare(table, configuration.checkpoint);
  declare(table, configuration.metrics);
  table.warn("metrics.images", [&configuration]() -> std::string {
    const bool draws = static_cast<bool>(configuration.task_kind().draw);
    return draws ? "" : "run.task is " + configuration.task;
  });
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
              [&configuration] { return configuration.task_kind().problem(configuration.data); });
  if (family == nullptr) return;
  configuration.body = family->declare(table, planned_setting(configuration));
  if (table.has("model.targets"))
    table.check({"model.targets", "run.task"}, [&configuration, &table]() -> std::string {
      if (configuration.task == "language_model" || table.is_default("model.targets")) return "";
      return "model.targets is for run.task: language_model, where each position has a target; "
             "run.task is " +
             configuration.task;
    });
  table.check({"run.task", family_key}, [&configuration, family]() -> std::string {
    if (std::ranges::count(family->tasks, configuration.task) > 0) return "";
    return fmt::format("model.family: {} learns run.task: {}, found {}",
                       family->name,
                       fmt::join(family->tasks, " or "),
                       configuration.task);
  });
}

std::unique_ptr<Configuration> configure(const ConfigurationText& source) {
  Written written = read_layers(source);
  const Family* family = chosen_family(written.assignments);
  std::unique_ptr<Configuration> configuration;
  if (family != nullptr) configuration = judge(source, family, written.assignments);
  std::vector<Complaint> mistakes = std::move(written.complaints);
  std::ranges::move(family != nullptr ? configuration->table.mistakes()
                                      : mistakes_without_family(source, written.assignments),
                    std::back_inserter(mistakes));
  refuse_all(std::move(mistakes));
  return configuration;
}

ConfigurationChange compare(const Configuration& configuration, const std::string& saved) {
  std::map<std::string, std::string> before;
  const WrittenKeys written = read_yaml(saved, "configuration");
  if (!written.complaints.empty()) {
    const Complaint& first = written.complaints.front();
    throw DataError("{}: {}", first.mark.to_string(), first.sentence);
  }
  for (const Assignment& assignment : written.assignments) {
    before[assignment.key] = text_of(assignment);
  }
  ConfigurationChange change;
  change.saved = before;
  for (const OptionValue& value : configuration.table.values()) {
    const auto found = before.find(value.key);
    // A key that an older version had not is as that version was.
    if (found == before.end() && value.place == "default") continue;
    const std::string was = found == before.end() ? "no such key" : found->second;
    if (found != before.end()) before.erase(found);
    if (was == value.text) continue;
    std::string sentence = fmt::format("{}: the checkpoint has {}, the configuration {} ({})",
                                       value.key,
                                       was,
                                       value.text,
                                       value.place);
    if (value.other_weights(was)) change.refused.push_back(sentence);
    change.differences.push_back(std::move(sentence));
  }
  for (const auto& [key, text] : before) {
    change.differences.push_back(
        fmt::format("{}: the checkpoint has {}, the configuration no such key", key, text));
  }
  return change;
}

Reconfigure reconfiguration(const ConfigurationText& source) {
  return [source](const std::vector<std::string>& keys) -> std::shared_ptr<const Settings> {
    ConfigurationText changed = source;
    changed.settings.insert(changed.settings.end(), keys.begin(), keys.end());
    return std::shared_ptr<Configuration>(configure(changed));
  };
}

}  // namespace longspan
