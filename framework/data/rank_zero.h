// Long work on a file that one rank does for all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "framework/core/config_path.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Whether rank 0 finds a file or folder there; false for an empty path. Another node may see it
// later. Collective.
bool is_there(const ConfigPath& path, const Communicator& all);

// Calls `work` on the ranks that are chosen, and returns there what it returns, elsewhere "", when
// all of it is done. The rest as below; the slowest rank hears what its work tells, the others its
// share.
std::string run_on_selected_ranks(const Communicator& all,
                                  bool is_chosen,
                                  const std::string& path,
                                  std::int64_t size,
                                  const ProgressCallback& listener,
                                  std::function<std::string(const ProgressCallback&)> work);

// Calls `work` on rank 0, and gives what it returns to every rank. A collective; however long the
// work takes, the others wait in short ones, so that they are not taken for hung. What it throws is
// thrown on rank 0. It runs on a thread of its own, with as many OpenMP threads as the caller has,
// and must own what it uses.
//
// What the work tells the listener it is given, `listener` hears several times a second on rank 0,
// on the thread of the caller; on the other ranks the same share of `path`. What that throws is
// thrown here, and the work is not waited for: it ends when it next tells how far it is.
std::string run_on_rank_zero(const Communicator& all,
                             const std::string& path,
                             std::int64_t size,
                             const ProgressCallback& listener,
                             std::function<std::string(const ProgressCallback&)> work);

}  // namespace longspan
