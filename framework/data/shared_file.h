// A file that every rank opens and the first one looks through for all.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/input_file.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

using SharedFile = std::shared_ptr<const InputFile>;

// The text of a file, as open_plain_text has it. A collective. Throws DataError on every rank when
// the ranks do not all see the same bytes, as far as the size and 256 blocks tell.
SharedFile open_shared(const ConfigPath& path, const Communicator& all);
// Returns the file that this rank has opened, under the same conditions.
SharedFile share(SharedFile file, const Communicator& all);

// What rank 0 finds in the file, on every rank; see run_on_rank_zero. A collective.
std::string scan_shared(const SharedFile& file,
                        const Communicator& all,
                        const ProgressCallback& listener,
                        std::function<std::string(const InputFile&, const ProgressCallback&)> work);

}  // namespace longspan
