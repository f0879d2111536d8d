// Formats plans for users.
#pragma once

#include <optional>

#include "framework/planning/plan.h"

namespace longspan {

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
// Returns, in lines, the keys that would make a plan fit, or that none does.
std::string savings_text(const Reconfigure& reconfigure,
                         const StepPlan& plan,
                         const MachineProfile& machine,
                         const DataSizes& ids);

}  // namespace longspan
