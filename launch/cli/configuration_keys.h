// All configuration keys, and the constraints between keys of several sections.
#pragma once

#include "launch/cli/configuration.h"

namespace longspan {

// Binds the keys of every section to the configuration. This is the only place that combines the
// sections. Without a family, `model` has only the common keys.
void declare_all(Configuration& configuration, const Family* family);

// Returns whether run.task is a text task.
bool reads_text(const RunConfig& settings);

// Declares the constraints between values that a run requires.
void declare_checks(Configuration& configuration);
// Declares how the ranks of a training run divide its batch.
void declare_batch_checks(Configuration& configuration);

}  // namespace longspan
