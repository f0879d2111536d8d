// Automatic restart of failed training.
#pragma once

#include <functional>

#include "launch/cli/configuration_text.h"
#include "launch/cli/job.h"
#include "launch/cli/launch.h"

namespace longspan {

using StartJob = std::function<JobResult(const LaunchCommandLine&)>;

// Runs the training by `start`, and restarts it up to `line.retry.most` times after a failure. A
// failure is a rank that failed, hung or was ended by a signal, or an unreachable host.
//
// A restart uses the hosts of mpirun's options that respond, with fewer ranks if these have fewer
// slots. A host that does not respond counts as unreachable only once another machine has
// responded, since mpirun may reach hosts that this process cannot. Hosts are also probed before
// the first attempt. Training resumes from the run's newest checkpoint. It waits between attempts
// (see RetryOptions). It gives up after three consecutive attempts without progress. Progress is
// judged by the last step saved and the last one logged.
//
// Without `line.retry.most` runs the training once, and reports where it was killed.
//
// Returns the exit code of the last attempt, or that of a stop on request if a signal arrived in
// between. Each attempt, its reason and its hosts are reported on standard error and in the run's
// log.
int run_with_retries(const LaunchCommandLine& line,
                     const ConfigurationText& source,
                     const StartJob& start);

}  // namespace longspan
