// Recovery without hands: a training that has failed is started again.
#pragma once

#include <functional>

#include "launch/cli/configuration_text.h"
#include "launch/cli/job.h"
#include "launch/cli/run.h"

namespace longspan {

using StartJob = std::function<JobResult(const RunCommandLine&)>;

// Runs the training by `start`, and again, up to `line.retry.most` times, where a rank failed, hung
// or was ended by a signal, or where a host is gone: on the hosts named by mpirun's options that
// answer, and where these have fewer places on a layout of fewer ranks. A host that does not answer
// counts as gone only once another machine has answered, since mpirun may reach hosts that this
// process cannot; they are asked before the first attempt too. It goes on from the newest
// checkpoint of the run. Between attempts it waits; see RetryOptions. It gives up when three
// attempts in a row have come no further, which is judged by the last step saved and the last one
// logged.
//
// Without `line.retry.most` it runs the training once, and says where it was killed.
//
// Returns the exit code of the last attempt, or that of a stop on request where a signal came in
// between. Each attempt, why and on what, is told on standard error and in the log of the run.
int run_with_retries(const RunCommandLine& line,
                     const ConfigurationText& source,
                     const StartJob& start);

}  // namespace longspan
