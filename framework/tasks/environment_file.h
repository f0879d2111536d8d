// Environments from files.
#pragma once

#include "framework/core/config_path.h"
#include "framework/data/examples/label_set.h"
#include "framework/distributed/communicator.h"
#include "framework/environments/environment.h"

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

}  // namespace longspan
