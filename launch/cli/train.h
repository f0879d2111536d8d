// A training, for the command and for programs that train.
#pragma once

#include "framework/training_loop/training_run.h"
#include "launch/cli/configuration_text.h"

namespace longspan {

// Collective. Understands the configuration and trains: see run_training.
ExitCode train(Session& session, const ConfigurationText& source, const TrainingHooks& hooks = {});

}  // namespace longspan
