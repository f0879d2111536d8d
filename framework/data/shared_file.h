// Files that every rank opens and rank 0 scans for all.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/input_file.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

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

}  // namespace longspan
