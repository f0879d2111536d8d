// Every key of a configuration, and what keys of several sections ask of one another.
#pragma once

#include "launch/cli/configuration.h"

namespace longspan {

// Binds the keys of every section to the configuration: the one place where the sections come
// together. Without a family `model` has only the keys that all share.
void declare_all(Configuration& configuration, const Family* family);

// Whether run.task is a task of texts.
bool reads_text(const RunConfig& settings);

// What else must hold of the values when a run is made of them.
void declare_checks(Configuration& configuration);
// And how the ranks of a training divide its batch.
void declare_batch_checks(Configuration& configuration);

}  // namespace longspan
