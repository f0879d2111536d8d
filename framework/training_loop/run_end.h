// Reports the end of a run.
#pragma once

#include <string>

#include "framework/training_loop/run_history.h"

namespace longspan {

// How the training loop ended.
struct RunEnd {
  bool is_saved = false;         // the state after the last step is saved
  bool is_stopped = false;       // a stop request came before the last requested step
  std::string end_of_data = {};  // message of single-pass documents that ended
};

// Logs the end of the run. Returns `ok`, or `stopped` if a restart continues training. Throws
// DataError if the data ended first. Throws DivergedError if the last weights give no finite loss
// or gradient: then they are not saved, and a stopped run cannot resume from them.
ExitCode finish_run(const TrainingContext& run, const RunHistory& history, const RunEnd& end);

}  // namespace longspan
