// Who waits while long files are read is told that there is something to wait for.
#pragma once

#include <string>

#include "checkpoints/files.h"
#include "framework/distributed/session.h"

namespace longspan {

// On the first rank: a line to standard error every five seconds, beginning with `name`. Silent on
// the others.
ReadProgress reading_progress(const std::string& name, const Session& session);

}  // namespace longspan
