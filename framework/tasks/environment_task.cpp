#include "framework/tasks/environment_task.h"

#include <fmt/format.h>

#include "framework/tasks/environment_file.h"
#include "framework/tasks/labeled_task.h"

namespace longspan {
namespace {

std::string problem_of(const std::string& name, const DataOptions& data) {
  if (!data.train_target.empty())
    return fmt::format("data.train_target requires run.task: translation, found {}", name);
  if (data.tokenizer == TokenizerKind::bytes) return "";
  return fmt::format("data.tokenizer.type: expected byte with run.task: {}, found {}",
                     name,
                     name_of(data.tokenizer));
}

}  // namespace

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
