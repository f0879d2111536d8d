// What tasks share whose data are environments.
#pragma once

#include <optional>
#include <string>

#include "framework/environments/environment.h"
#include "framework/tasks/task.h"

namespace longspan {

// What is seen at a step is a byte, what is done then one of the environment's actions.
class EnvironmentTask : public Task {
 public:
  // Reads data.train and data.validation. Throws DataError.
  explicit EnvironmentTask(const TaskContext& setting);

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  std::int64_t classes() const override { return std::ssize(environment_.actions); }
  const DataFingerprint& identity() const override { return identity_; }
  void save(Scalars& scalars) const override;
  void check_compatible(const Scalars& saved, const std::string& place) const override;
  std::optional<Measurement> validate(const Model& model) const override;

 protected:
  // What the model does in the environment of the validation. Collective.
  virtual Measurement measured(const Environment& environment, const Model& model) const = 0;

  const Environment& environment() const { return environment_; }

 private:
  Tokenizer tokenizer_;
  Environment environment_;
  DataFingerprint identity_;
  std::optional<Environment> validation_;
};

// Of the file of a request. Throws DataError, also where its actions are not those that the model
// learnt. Collective.
Environment environment_of(const EvaluateRequest& request);

// The kind of such a task: what does not depend on what is learnt.
TaskSpec environment_task(const std::string& name);

}  // namespace longspan
