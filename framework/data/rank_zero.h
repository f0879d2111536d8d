// Long file work that rank 0 performs for all ranks, and files that it scans for all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "framework/core/config_path.h"
#include "framework/core/input_file.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Returns whether rank 0 finds a file or directory at a path; false for an empty path. Other nodes
// may see it later. Collective.
bool path_exists(const ConfigPath& path, const Communicator& all);

// Calls `work` on the selected ranks, and returns its result there and "" elsewhere, when all have
// finished. Otherwise as run_on_rank_zero. The listener of the slowest rank receives the progress
// of its own work; the others receive the same fraction.
std::string run_on_selected_ranks(const Communicator& all,
                                  bool is_chosen,
                                  const std::string& path,
                                  std::int64_t size,
                                  const ProgressCallback& listener,
                                  std::function<std::string(const ProgressCallback&)> work);

// Calls `work` on rank 0 and broadcasts its result. The other ranks wait in short collectives, so
// that they do not appear hung. Rank 0 rethrows the exceptions of `work`. `work` runs on its own
// thread, with the caller's number of OpenMP threads, and must own what it uses. On rank 0,
// `listener` receives the progress that `work` reports, several times a second on the caller's
// thread. On other ranks it receives the same fraction of `path`. An exception of `listener` is
// rethrown without waiting for `work`, which ends at its next progress report. Collective.
std::string run_on_rank_zero(const Communicator& all,
                             const std::string& path,
                             std::int64_t size,
                             const ProgressCallback& listener,
                             std::function<std::string(const ProgressCallback&)> work);

// Files that every rank opens and rank 0 scans for all.

using SharedFile = std::shared_ptr<const InputFile>;

// Opens a text file, as open_plain_text. Throws DataError on every rank when the ranks read
// different bytes, judged by the size and 256 blocks. Collective.
SharedFile open_shared(const ConfigPath& path, const Communicator& all);
// Returns the file that this rank has opened. Throws as open_shared. Collective.
SharedFile share(SharedFile file, const Communicator& all);

// Returns on every rank what `work` returns on rank 0; see run_on_rank_zero. Collective.
std::string scan_shared(const SharedFile& file,
                        const Communicator& all,
                        const ProgressCallback& listener,
                        std::function<std::string(const InputFile&, const ProgressCallback&)> work);

// Returns XXH3 of the file, in one read. Throws what the listener throws.
std::uint64_t hash_of_file(const InputFile& file, const ProgressCallback& listener = {});

}  // namespace longspan
