// Text of a configuration before parsing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/distributed/communicator.h"

namespace longspan {

// Larger files are rejected, as no user writes one.
inline constexpr std::size_t max_configuration_bytes = std::size_t{1} << 20;

struct ConfigurationText {
  std::string file;                   // file name, for messages
  std::string text;                   // YAML
  std::vector<std::string> settings;  // "key=value", overriding the file
  bool of_another_job = false;        // from training: its layout does not apply to this job
  std::optional<std::string> home = std::nullopt;  // replaces "~" in paths
  bool has_lines = true;                           // false: generated text, messages omit lines
};

// Reads the configuration on rank 0 and distributes its bytes and rank 0's home directory to all.
// Collective. Throws the same ConfigurationError on all ranks.
ConfigurationText read_configuration(const std::string& file,
                                     std::vector<std::string> settings,
                                     const Communicator& world);

}  // namespace longspan
