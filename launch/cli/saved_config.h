// Values of a configuration as text.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "framework/options/options.h"

namespace longspan {

// As OptionTable::resolved writes it.
std::string text_of(const Assignment& assignment);

// The configuration that a run wrote.
struct SavedConfiguration {
  std::map<std::string, std::string> values;  // each key's value, as `resolved` wrote it
  std::string trouble;  // what of the file cannot be read, as a sentence; empty where all can
};

// Throws nothing for what is wrong with the file. Of one that is not there it says nothing.
SavedConfiguration saved_configuration(const std::filesystem::path& file);

}  // namespace longspan
