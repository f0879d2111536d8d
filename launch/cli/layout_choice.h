// How many ranks to start on this machine, where nobody says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/core/device.h"
#include "framework/planning/plan.h"
#include "launch/cli/configuration.h"

namespace longspan {

// What of a machine has a rank of its own: its GPUs that can be used, or without one its memories
// (NUMA nodes).
struct DeviceSlots {
  int count = 1;
  Processor processor = Processor::cpu;
};
DeviceSlots places_here(DeviceChoice choice);

struct ChosenLayout {
  int ranks = 1;
  std::vector<std::string> settings;  // "key=value": the layout, where the configuration leaves it
  std::string reason;                 // as a clause
};

// As many ranks as `parallel.*` names, or else one for each place: the fastest layout of them that
// fits, by the planner's counts and the speeds of a usual machine. Throws ConfigurationError for
// what the configuration says wrongly. Without `places` those of this machine are looked up.
ChosenLayout choose_layout(const ConfigurationText& source, std::optional<DeviceSlots> places = {});

// For a run that had more ranks: the layout of at most `most` ranks that has the most of them and
// fits, whatever `parallel.*` says; where there are several the one with the context and tensor of
// `parallel.*`, else the fastest. `local` of the ranks share the memory of this machine; nothing:
// they are on others, whose memory is not known. 0 ranks where there is none, with the reason.
// Throws as above.
ChosenLayout choose_layout_of_fewer(const ConfigurationText& source,
                                    int most,
                                    std::optional<int> local);

// The layout of a plan as "key=value": parallel.data_parallel_size, context_parallel_size,
// tensor_parallel_size, sequence_parallel and zero_stage.
std::vector<std::string> layout_settings(const StepPlan& plan);

// The ranks that `parallel.*` names, where `parallel.data_parallel_size` is among them. Throws as
// above.
std::optional<int> named_ranks(const ConfigurationText& source);

// A rank for each place, for commands that read no configuration.
ChosenLayout choose_ranks();

}  // namespace longspan
