// What ends a run.
#pragma once

#include <string>

#include "framework/training_loop/run_history.h"

namespace longspan {

// How its steps have come to an end.
struct RunEnd {
  bool is_saved = false;         // the state after the last of them
  bool is_stopped = false;       // a request came before the last step that is wanted
  std::string end_of_data = {};  // what documents that are read only once said at their end
};

// Says so in the log, and what it comes to: `ok`, or `stopped`, when started again goes on. Throws
// DataError where the data ended first, and DivergedError where the weights after the last step
// give no finite loss or gradient, so that they are not saved, and who asked to stop has nothing to
// go on from.
ExitCode finish_run(const TrainingContext& run, const RunHistory& history, const RunEnd& end);

}  // namespace longspan
