// What is heard and said while a long text is read, before the first step.
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

// Says it every so many seconds, and each note at once.
ProgressCallback throttled_progress(std::function<void(const std::string&)> say,
                                    double seconds = 3);

// Of a run: says it on the log. Throws StoppedError, whose exit code asks to be started again, as
// soon as this process is asked to stop: there is nothing yet to save. The other ranks end with it.
// Both must outlive the listener.
ProgressCallback reading(const StopRequest& stop, const Log& log);

// Throws Failure when it takes longer than that: for what would be good to know but not at any
// price.
ProgressCallback with_time_limit(double seconds);

}  // namespace longspan
