// What a user wrote as a configuration, not yet understood.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/distributed/communicator.h"

namespace longspan {

// A larger file is none that a person wrote.
inline constexpr std::size_t most_configuration_bytes = std::size_t{1} << 20;

struct ConfigurationText {
  std::string file;                   // its name, for the messages
  std::string text;                   // YAML
  std::vector<std::string> settings;  // "key=value": they win over the file
  bool of_another_job = false;  // it is a training's: the layout it had does not count for this job
  std::optional<std::string> home = std::nullopt;  // what "~" stands for in paths
  bool has_lines = true;  // false: a program made the text, and messages name keys without a line
};

// Collective: rank 0 reads the file; all get its bytes and rank 0's home directory, or all throw
// the same ConfigurationError.
ConfigurationText read_configuration(const std::string& file,
                                     std::vector<std::string> settings,
                                     const Communicator& world);

}  // namespace longspan
