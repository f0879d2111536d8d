#include "launch/configuration.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <map>
#include <system_error>

#include "checkpoints/files.h"
#include "framework/core/option_text.h"
#include "launch/yaml.h"

namespace longspan {
namespace {

constexpr const char* family_key = "model.family";
constexpr std::array<std::string_view, 4> layout_keys = {
    "parallel.data", "parallel.context", "parallel.tensor", "parallel.sequence"};

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.name);
  return names;
}

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

// The one place where the sections come together. Without a family only what all share is declared.
void declare_all(Configuration& configuration, const Family* family) {
  OptionTable& table = configuration.table;
  declare(table, configuration.run);
  table.add(family_key,
            configuration.family,
            "the kind of model; it decides which other keys the section has",
            one_of(family_names()),
            required(),
            fixes_weights());
  declare(table, configuration.data);
  declare(table, configuration.training);
  declare(table, configuration.parallel);
  declare(table, configuration.memory);
  declare(table, configuration.precision);
  declare(table, configuration.checkpoint);
  declare(table, configuration.metrics);
  if (family != nullptr)
    configuration.make_model = family->declare(table, planned_setting(configuration));
}

// How the ranks of a training divide its batch.
void declare_batch_checks(Configuration& configuration) {
  const auto ranks = [&configuration] { return configuration.parallel.data.value_or(1); };
  configuration.table.check({"data.batch", "parallel.data"}, [&configuration, ranks] {
    return batch_problem(configuration, ranks());
  });
  configuration.table.check({"training.accumulation", "data.batch", "parallel.data"},
                            [&configuration, ranks]() -> std::string {
                              if (!batch_problem(configuration, ranks()).empty()) return "";
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
    const auto tokens = static_cast<double>(configuration.data.batch * configuration.data.segment);
    const double scale = configuration.precision.loss_scale.initial;
    if (configuration.precision.compute != DType::f16 || scale / tokens >= smallest_normal)
      return "";
    return fmt::format(
        "precision.loss_scale: found {}; with {} tokens a step (data.batch x data.segment) all "
        "gradients underflow f16; wanted at least {}",
        scale,
        tokens,
        std::exp2(std::ceil(std::log2(tokens * smallest_normal))));
  });
}

// For each key that a family declares, the families that do.
std::map<std::string, std::vector<std::string>> owners_of_keys() {
  std::map<std::string, std::vector<std::string>> owners;
  for (const Family& family : families()) {
    OptionTable table;
    const ModelFactory unused = family.declare(table, {});
    for (const OptionDescription& option : table.reference()) {
      owners[option.key].push_back(family.name);
    }
  }
  return owners;
}

// Keys of other families get a sentence of their own. Where the family is not known no key of its
// section can be judged: they are left out, so that the family alone is complained about.
void judge_family_keys(OptionTable& table,
                       const Family* family,
                       std::vector<Assignment>& assignments) {
  if (family == nullptr) {
    std::erase_if(assignments, [](const Assignment& assignment) {
      return assignment.key.starts_with("model.") && assignment.key != family_key;
    });
    return;
  }
  for (const auto& [key, names] : owners_of_keys()) {
    if (table.has(key)) continue;
    table.note_elsewhere(
        key,
        fmt::format("is a key of family {}, not of {}", fmt::join(names, " and "), family->name));
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

std::string system_message() { return std::error_code(errno, std::generic_category()).message(); }

// A regular file, or a pipe, as a shell writes for <(command).
std::string read_file(const std::string& file) {
  // O_NONBLOCK: a named pipe that nobody writes is empty.
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.defined())
    throw ConfigurationError("{}: cannot be opened: {}", file, system_message());
  struct stat status {};
  ::fstat(descriptor.get(), &status);
  if (S_ISDIR(status.st_mode))
    throw ConfigurationError("{}: is a directory; wanted: a YAML file", file);
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
    throw ConfigurationError("{}: is not a regular file; wanted: a YAML file", file);
  ::fcntl(descriptor.get(), F_SETFL, 0);
  std::string text;
  char block[4096];
  while (const ssize_t count = ::read(descriptor.get(), block, sizeof block)) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw ConfigurationError("{}: cannot be read: {}", file, system_message());
    text.append(block, static_cast<std::size_t>(count));
  }
  return text;
}

// Where a text could not be read to its end, what it does not give is no mistake.
void refuse_unread(const std::vector<WrittenKeys>& layers) {
  if (std::ranges::all_of(layers, &WrittenKeys::whole)) return;
  OptionTable complaints;
  for (const WrittenKeys& layer : layers)
    for (const Complaint& complaint : layer.complaints) complaints.complain(complaint);
  complaints.finish();
}

// A value as `resolved` writes it; what was in quotation marks there needed them.
std::string text_of(const Assignment& assignment) {
  std::string text;
  for (const Scalar& scalar : assignment.scalars) {
    if (!text.empty()) text += ", ";
    if (scalar.quoted) {
      const std::string word = yaml_word(scalar.text);
      text += word == scalar.text ? fmt::format("\"{}\"", word) : word;
    } else {
      text += scalar.text;
    }
  }
  return assignment.kind == Assignment::Kind::list ? fmt::format("[{}]", text) : text;
}

bool same(const OptionDescription& a, const OptionDescription& b) {
  return a.key == b.key && a.type == b.type && a.allowed == b.allowed && a.standard == b.standard &&
         a.documentation == b.documentation;
}

}  // namespace

std::unique_ptr<Configuration> configure(const ConfigurationText& source) {
  std::vector<WrittenKeys> layers;
  if (!source.file.empty()) layers.push_back(read_yaml(source.text, source.file));
  for (const std::string& setting : source.settings) layers.push_back(read_setting(setting));

  refuse_unread(layers);
  if (source.of_another_job)
    std::erase_if(layers.front().assignments, [](const Assignment& assignment) {
      return std::ranges::count(layout_keys, assignment.key) > 0;
    });
  std::vector<Assignment> assignments;
  for (const WrittenKeys& layer : layers) {
    assignments.insert(assignments.end(), layer.assignments.begin(), layer.assignments.end());
  }
  const Family* family = chosen_family(assignments);

  auto configuration = std::make_unique<Configuration>();
  declare_all(*configuration, family);
  declare_checks(*configuration);
  if (!source.of_another_job) declare_batch_checks(*configuration);
  judge_family_keys(configuration->table, family, assignments);
  for (const WrittenKeys& layer : layers) {
    for (const Complaint& complaint : layer.complaints) configuration->table.complain(complaint);
  }
  configuration->table.assign(assignments);
  configuration->table.finish();
  return configuration;
}

ConfigurationText read_configuration(const std::string& file,
                                     std::vector<std::string> settings,
                                     const Communicator& world) {
  // The first byte says whether the text or an error follows.
  std::string message;
  if (world.rank() == 0) {
    try {
      message = '+' + read_file(file);
    } catch (const ConfigurationError& error) {
      message = std::string("-") + error.what();
    }
  }
  message = world.broadcast(std::move(message), 0);
  const std::string text = message.substr(1);
  if (message[0] == '-') throw ConfigurationError("{}", text);
  return {file, text, std::move(settings)};
}

ConfigurationChange compare(const Configuration& configuration, const std::string& saved) {
  std::map<std::string, std::string> before;
  for (const Assignment& assignment : read_yaml(saved, "checkpoint").assignments) {
    before[assignment.key] = text_of(assignment);
  }
  ConfigurationChange change;
  for (const OptionValue& value : configuration.table.values()) {
    const auto found = before.find(value.key);
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

std::vector<OptionDescription> configuration_reference() {
  Configuration shared;
  declare_all(shared, nullptr);
  std::vector<OptionDescription> all = shared.table.reference();

  // A key that several families describe alike stands once; each says whose it is unless all do.
  struct FamilyKey {
    OptionDescription option;
    std::vector<std::string> families;
  };
  std::vector<FamilyKey> keys;
  for (const Family& family : families()) {
    OptionTable table;
    const ModelFactory unused = family.declare(table, {});
    for (const OptionDescription& option : table.reference()) {
      const auto known = std::find_if(
          keys.begin(), keys.end(), [&](const FamilyKey& key) { return same(key.option, option); });
      if (known == keys.end()) {
        keys.push_back({option, {family.name}});
      } else {
        known->families.push_back(family.name);
      }
    }
  }
  auto place = std::find_if(all.begin(), all.end(), [](const OptionDescription& option) {
    return option.key == family_key;
  });
  for (FamilyKey& key : keys) {
    if (key.families.size() < families().size()) {
      key.option.documentation =
          fmt::format("{} (family {})", key.option.documentation, fmt::join(key.families, ", "));
    }
    place = all.insert(place + 1, std::move(key.option));
  }
  return all;
}

}  // namespace longspan
