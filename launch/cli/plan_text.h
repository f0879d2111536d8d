// A plan as a user reads it.
#pragma once

#include <optional>

#include "framework/planning/plan.h"

namespace longspan {

// "1 rank", "2 ranks".
std::string pluralize(std::int64_t count, std::string_view name);
// Three digits and a prefix: "1.5 T".
std::string format_si(double count);

// How far the predictions of a measured machine were off, as a clause.
std::string trial_text(const MachineProfile& machine);

// What a step takes, in lines. `model_flops`: of the global batch, as the mathematics needs them,
// where that is known.
std::string describe(const StepPlan& plan,
                     std::optional<double> model_flops,
                     const MachineProfile& machine);
// The first layouts, a line each.
std::string table(const std::vector<StepPlan>& plans, const MachineProfile& machine);
// The keys with which a plan that does not fit would, or that none does; in lines.
std::string savings_text(const Reconfigure& reconfigure,
                         const StepPlan& plan,
                         const MachineProfile& machine,
                         const DataSizes& ids);

}  // namespace longspan
