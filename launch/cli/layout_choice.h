// Chooses the number of ranks on this machine and their layout if the user does not, and formats
// plans.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/core/device.h"
#include "framework/planning/plan.h"
#include "launch/cli/configuration.h"

namespace longspan {

// Devices of a machine that get one rank each: its usable GPUs, or without GPUs its NUMA nodes.
struct DeviceSlots {
  int count = 1;
  Processor processor = Processor::cpu;
};
DeviceSlots visible_devices(DeviceChoice choice);

struct ChosenLayout {
  int ranks = 1;
  std::vector<std::string> settings;  // "key=value": layout keys that the configuration leaves open
  std::string reason;                 // as a clause
};

// Returns the fastest layout that fits, by the planner's counts and the speeds of a typical
// machine. It has as many ranks as `parallel.*` requests, or else one per slot. Without `places`
// uses the slots of this machine. Throws ConfigurationError for an invalid configuration.
ChosenLayout choose_layout(const ConfigurationText& source, std::optional<DeviceSlots> places = {});

// Returns a layout for a run that had more ranks: one that fits and has the most ranks, at most
// `most`. It ignores `parallel.*`, except that among several it prefers the context and tensor
// sizes of `parallel.*`, then the fastest. `local` of the ranks share the memory of this machine.
// Empty: they are on others, whose memory is unknown. Returns 0 ranks with the reason if nothing
// fits. Throws as above.
ChosenLayout choose_layout_of_fewer(const ConfigurationText& source,
                                    int most,
                                    std::optional<int> local);

// Returns the layout of a plan as "key=value": parallel.data_parallel_size, context_parallel_size,
// tensor_parallel_size, sequence_parallel and zero_stage.
std::vector<std::string> layout_settings(const StepPlan& plan);

// Returns the number of ranks set by `parallel.*`, if `parallel.data_parallel_size` is set. Throws
// as above.
std::optional<int> configured_ranks(const ConfigurationText& source);

// Returns one rank per slot, for commands that read no configuration.
ChosenLayout choose_ranks();

// Formats with three digits and an SI prefix: "1.5 T".
std::string format_si(double count);

// Returns the prediction errors on a measured machine, as a clause.
std::string trial_text(const MachineProfile& machine);

// Describes the cost of a step, in lines. `model_flops`: of the global batch, if known.
std::string describe(const StepPlan& plan,
                     std::optional<double> model_flops,
                     const MachineProfile& machine);
// Formats the first layouts, one per line.
std::string table(const std::vector<StepPlan>& plans, const MachineProfile& machine);
// Returns, in lines, the longest sequences of a plan's layout that fit, in one pass and in chunks.
std::string longest_text(const Reconfigure& reconfigure,
                         const StepPlan& plan,
                         const MachineProfile& machine,
                         const DataSizes& ids);
// Returns, in lines, the keys that would make a plan fit, or that none does.
std::string savings_text(const Reconfigure& reconfigure,
                         const StepPlan& plan,
                         const MachineProfile& machine,
                         const DataSizes& ids);

}  // namespace longspan
