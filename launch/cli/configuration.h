// The full configuration of a run, composed of the keys that each component declares.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/options/options.h"
#include "framework/training_loop/training_run.h"
#include "launch/cli/configuration_text.h"
#include "models/registry.h"

namespace longspan {

// The key that selects which other keys exist.
inline constexpr const char* family_key = "model.family";

// Not movable: the table is bound to its members.
struct Configuration : RunConfig {
  Configuration() = default;
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;

  OptionTable table;
};

// Builds a configuration. Throws ConfigurationError with the diagnostics, one per line (see
// report_invalid_file). Reads `model.family` first, as it determines the set of keys. If it is
// invalid, a key of `model` is validated by every family that has it.
std::unique_ptr<Configuration> configure(const ConfigurationText& source);

// Returns the differences between the resolved configuration `saved` of a checkpoint and this one.
// Keys that define the meaning of the weights must not differ. A key that only one of the two has
// is a difference too. Throws DataError if `saved` is not what a run writes.
ConfigurationChange compare(const Configuration& configuration, const std::string& saved);

// Returns a function that reconfigures the same source with some keys ("key=value") overridden.
Reconfigure reconfiguration(const ConfigurationText& source);

}  // namespace longspan
