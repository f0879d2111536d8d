// Progress messages while long files are read.
#pragma once

#include <string>

#include "checkpoints/files.h"
#include "framework/distributed/session.h"

namespace longspan {

// Prints a line that starts with `name` to standard error every five seconds on the first rank.
// Silent on other ranks.
ReadProgress reading_progress(const std::string& name, const Session& session);

}  // namespace longspan
