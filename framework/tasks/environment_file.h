// Environments that files describe.
#pragma once

#include "framework/core/config_path.h"
#include "framework/data/examples/label_set.h"
#include "framework/distributed/communicator.h"
#include "framework/environments/environment.h"

namespace longspan {

// Read on rank 0 for all. Throws DataError.
Environment read_environment(const ConfigPath& path, const Communicator& all);

// Throws DataError, which begins with `place`, where an environment has others.
void require_same_actions(const LabelSet& learnt,
                          const Environment& environment,
                          const std::string& place);

// Validations read the same episodes in every run.
inline Random validation_episodes() { return Random(1).child("validation episodes"); }

// Whole episodes of each row in `most` batches of so many steps, rounded up; of 0 batches 8.
std::int64_t episodes_of(const Environment& environment, std::int64_t segment, std::int64_t most);

}  // namespace longspan
