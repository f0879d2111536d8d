// Progress messages and stop requests while long files are read, before the first step.
#pragma once

#include <functional>
#include <string>

#include "framework/core/error.h"
#include "framework/data/progress.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/stop_request.h"

namespace longspan {

using StoppedError = ErrorOf<ExitCode::stopped>;

// "reading corpus.txt: 12% of 50.0 GB".
std::string reading_text(const ScanProgress& progress);

// Reports the progress at most once every `seconds`, and each note at once.
ProgressCallback throttled_progress(std::function<void(const std::string&)> say,
                                    double seconds = 3);

// Logs the progress of a run's reads. Throws StoppedError, whose exit code requests a restart, as
// soon as this process is asked to stop, as there is nothing to save yet. The other ranks then end
// too. Both arguments must outlive the callback.
ProgressCallback reading(const StopRequest& stop, const Log& log);

// Throws Failure if reading takes longer than `seconds`: for optional information.
ProgressCallback with_time_limit(double seconds);

}  // namespace longspan
