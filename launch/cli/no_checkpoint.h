// Describes a run without a checkpoint.
#pragma once

#include <filesystem>
#include <string>

namespace longspan {

// Returns a message, starting with the run's directory, that it has saved nothing yet. It includes
// whether the run is training, its progress, and when it saves or how to start it, as far as its
// files show.
std::string no_checkpoint_message(const std::filesystem::path& run);

}  // namespace longspan
