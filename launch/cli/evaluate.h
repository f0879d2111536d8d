// `longspan evaluate` for programs that embed its options in their own command line.
#pragma once

#include <functional>

#include "launch/cli/evaluation.h"

namespace CLI {
class App;
}

namespace longspan {

// evaluate_run with the parsed options.
using Evaluation = std::function<Evaluated(Session&, const ProgressCallback& heard)>;

// Binds all options of the command except --json.
Evaluation bind_evaluation(CLI::App& app);

}  // namespace longspan
