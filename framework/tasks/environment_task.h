// Environments from files, and the common base of tasks whose data they are.
#pragma once

#include <optional>
#include <string>

#include "framework/core/config_path.h"
#include "framework/data/examples/label_set.h"
#include "framework/distributed/communicator.h"
#include "framework/environments/environment.h"
#include "framework/tasks/task.h"

namespace longspan {

// Collective. Reads on rank 0 for all ranks. Throws DataError.
Environment read_environment(const ConfigPath& path, const Communicator& all);

// Throws DataError, prefixed with `place`, if the environment has other actions.
void require_same_actions(const LabelSet& learnt,
                          const Environment& environment,
                          const std::string& place);

// Random numbers of validation episodes, equal in every run.
inline Random validation_episodes() { return Random(1).child("validation episodes"); }

// Returns the number of whole episodes per row in `most` batches of `segment` steps, rounded up; 8
// episodes if `most` is 0.
std::int64_t episodes_of(const Environment& environment, std::int64_t segment, std::int64_t most);

// Observations are bytes, and outputs are actions of the environment.
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
  // Collective. Evaluates the model in the validation environment.
  virtual Measurement measured(const Environment& environment, const Model& model) const = 0;

  const Environment& environment() const { return environment_; }

 private:
  Tokenizer tokenizer_;
  Environment environment_;
  DataFingerprint identity_;
  std::optional<Environment> validation_;
};

// Collective. Reads the environment of a request. Throws DataError, also if its actions differ from
// those that the model learned.
Environment environment_of(const EvaluateRequest& request);

// Returns the part of the task specification that is independent of the learning method.
TaskSpec environment_task(const std::string& name);

}  // namespace longspan
