#include "framework/tasks/environment_task.h"

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/data/corpus/text_files.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/rank_zero.h"
#include "framework/tasks/labeled_task.h"

namespace longspan {
namespace {

// Episodes per row, if the number of batches is not given.
constexpr std::int64_t usual_episodes = 8;
constexpr std::int64_t max_environment_bytes = std::int64_t{64} << 20;

std::string problem_of(const std::string& name, const DataOptions& data) {
  if (!data.train_target.empty())
    return fmt::format("data.train_target requires run.task: translation, found {}", name);
  if (data.tokenizer == TokenizerKind::bytes) return "";
  return fmt::format("data.tokenizer.type: expected byte with run.task: {}, found {}",
                     name,
                     name_of(data.tokenizer));
}

}  // namespace

Environment read_environment(const ConfigPath& path, const Communicator& all) {
  const std::string text =
      run_on_rank_zero(all, path, 0, {}, [path = ConfigPath(path)](const ProgressCallback&) {
        std::string found = open_plain_text(path)->text(max_environment_bytes);
        parse_environment(found, path.describe());  // parsing on rank 0 reports errors once
        return found;
      });
  return parse_environment(text, path.describe());
}

void require_same_actions(const LabelSet& learnt,
                          const Environment& environment,
                          const std::string& place) {
  if (learnt == LabelSet(environment.actions)) return;
  throw DataError("{}: expected the training actions {}, found {} in a {}",
                  place,
                  fmt::join(learnt.names(), ", "),
                  fmt::join(environment.actions, ", "),
                  environment.description);
}

std::int64_t episodes_of(const Environment& environment, std::int64_t segment, std::int64_t most) {
  const std::int64_t segments = (environment.steps + segment - 1) / segment;
  return most == 0 ? usual_episodes : (most + segments - 1) / segments;
}

EnvironmentTask::EnvironmentTask(const TaskContext& setting)
    : environment_(read_environment(setting.data.train, setting.mesh.world)),
      identity_(identify_files({setting.data.train.parts.at(0).path}, setting.mesh.world)) {
  if (setting.data.validation.empty()) return;
  validation_ = read_environment(setting.data.validation, setting.mesh.world);
  require_same_actions(
      LabelSet(environment_.actions), *validation_, setting.data.validation.describe());
}

void EnvironmentTask::save(Scalars& scalars) const {
  scalars.set(labels_scalar, LabelSet(environment_.actions).to_json());
}

void EnvironmentTask::check_compatible(const Scalars& saved, const std::string& place) const {
  require_same_actions(labels_of(saved, place), environment_, place);
}

std::optional<Measurement> EnvironmentTask::validate(const Model& model) const {
  if (!validation_) return std::nullopt;
  Measurement result = measured(*validation_, model);
  result.text = "validation " + result.text;
  return result;
}

Environment environment_of(const EvaluateRequest& request) {
  const Environment environment =
      read_environment(request.file, request.model.parameters().mesh().world);
  require_same_actions(request.labels, environment, request.file.describe());
  return environment;
}

TaskSpec environment_task(const std::string& name) {
  TaskSpec kind;
  kind.name = name;
  kind.has_labels = true;
  kind.reads_streams = true;
  kind.problem = [name](const DataOptions& data) { return problem_of(name, data); };
  kind.vocabulary = [](const Tokenizer& tokenizer, const DataOptions&) {
    return tokenizer.vocabulary();
  };
  kind.planned_classes = [](const DataOptions& data, const ProgressCallback&) -> std::int64_t {
    return std::ssize(read_environment(data.train, Communicator()).actions);
  };
  return kind;
}

}  // namespace longspan
