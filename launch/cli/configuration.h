// The whole configuration of a run, composed of what each component declares.
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

// The key that decides which others there are.
inline constexpr const char* family_key = "model.family";

// Lives where it was made: the table is bound to its members.
struct Configuration : RunConfig {
  Configuration() = default;
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;

  OptionTable table;
};

// Throws ConfigurationError with the mistakes, a line each: see refuse_all. `model.family` is read
// first: it decides which keys there are. Where it is wrong a key of `model` is judged as every
// family that has it judges it.
std::unique_ptr<Configuration> configure(const ConfigurationText& source);

// What differs between the resolved configuration `saved` of a checkpoint and this one; keys that
// say what the weights are may not. A key that only one of the two has is a difference too. Throws
// DataError where `saved` is not what a run writes.
ConfigurationChange compare(const Configuration& configuration, const std::string& saved);

// The same source with some keys ("key=value") set on top.
Reconfigure reconfiguration(const ConfigurationText& source);

}  // namespace longspan
