// What `longspan evaluate` measures, for who has its options in a command line of their own.
#pragma once

#include <functional>

#include "launch/cli/evaluation.h"

namespace CLI {
class App;
}

namespace longspan {

// evaluate_run with what the options say.
using Evaluation = std::function<Evaluated(Session&, const ProgressCallback& heard)>;

// Binds the options of the command but --json.
Evaluation bind_evaluation(CLI::App& app);

}  // namespace longspan
