// A run that has saved no checkpoint yet, to who asks for one.
#pragma once

#include <filesystem>
#include <string>

namespace longspan {

// A sentence, beginning with the run's directory: that it has saved nothing yet, whether it trains
// now and how far it is, and when it saves or how it is started, as far as its files tell.
std::string no_checkpoint_message(const std::filesystem::path& run);

}  // namespace longspan
