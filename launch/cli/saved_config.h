// Configuration values as text.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "framework/options/options.h"

namespace longspan {

// Formats a value as OptionTable::resolved writes it.
std::string text_of(const Assignment& assignment);

// The configuration that a run wrote.
struct SavedConfiguration {
  std::map<std::string, std::string> values;  // each key's value, as `resolved` wrote it
  std::string trouble;                        // message about unreadable parts; empty if none
};

// Does not throw for an invalid file. A missing file has no values and no message.
SavedConfiguration saved_configuration(const std::filesystem::path& file);

}  // namespace longspan
