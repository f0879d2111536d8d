// The whole configuration of a run, composed of what each component declares.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/core/options.h"
#include "framework/train/settings.h"
#include "framework/train/training_run.h"

namespace longspan {

// What a user wrote, not yet understood.
struct ConfigurationText {
  std::string file;                   // its name, for the messages
  std::string text;                   // YAML
  std::vector<std::string> settings;  // "key=value": they win over the file
  bool of_another_job = false;  // it is a training's: the layout it had does not count for this job
};

// Lives where it was made: the table is bound to its members.
struct Configuration : Settings {
  Configuration() = default;
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;

  OptionTable table;
};

// Throws ConfigurationError with a line for each mistake. `model.family` is read first: it decides
// which keys there are.
std::unique_ptr<Configuration> configure(const ConfigurationText& source);

// Collective: rank 0 reads the file; all get its bytes, or all throw the same ConfigurationError.
ConfigurationText read_configuration(const std::string& file,
                                     std::vector<std::string> settings,
                                     const Communicator& world);

// What differs between the resolved configuration `saved` of a checkpoint and this one; keys that
// say what the weights are may not. A key that only one of the two has is a difference too.
ConfigurationChange compare(const Configuration& configuration, const std::string& saved);

// The same source with some keys ("key=value") set on top.
Reconfigure reconfiguration(const ConfigurationText& source);

// Every key of every family.
std::vector<OptionDescription> configuration_reference();

}  // namespace longspan
