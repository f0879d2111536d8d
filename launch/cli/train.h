// Training, for the command and for programs that embed it.
#pragma once

#include "framework/training_loop/training_run.h"
#include "launch/cli/configuration_text.h"

namespace longspan {

// Parses the configuration and trains (see run_training). Collective.
ExitCode train(Session& session, const ConfigurationText& source, const TrainingHooks& hooks = {});

}  // namespace longspan
