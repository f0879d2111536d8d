// What a run will take, before anything is allocated: a step is run on a dry device and a dry mesh,
// so the plan is counted by the code that it is about.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/distributed/fake_mesh.h"
#include "framework/planning/machine.h"

namespace longspan {

// One rank's part of a step once the memory of a model is full.
struct StepPlan {
  MeshShape mesh;
  Processor processor = Processor::cpu;
  int zero = 0;
  DType compute = DType::f32;
  MemoryReport memory;          // peaks by tag, their sum, and what is held from the system
  std::int64_t parameters = 0;  // of the whole model
  double tokens = 0;            // of the global batch
  double flops = 0;             // what this rank computes, repeated work included
  double touched = 0;           // bytes that this rank reads and writes: thrice what it allocates
  Traffic traffic;              // of this rank

  double bytes() const { return static_cast<double>(memory.reserved); }
};

// Of separate examples the shapes of those batches, known or allowed by the keys, of which one
// takes most; nothing of streams.
std::vector<BatchShape> largest_batches(const RunConfig& settings,
                                        const ProcessMesh& mesh,
                                        const DataSizes& ids);
// What a plan's time and FLOPs are of: of known batches that with most tokens.
MetaBatch usual_batch(const RunConfig& settings,
                      const ProcessMesh& mesh,
                      const Device& host,
                      const DataSizes& ids);

// Seconds of a step; nothing overlaps, so it is at most this where the machine's numbers hold. The
// parts are 0 where the machine's number is not known.
struct StepTime {
  double computing = 0;
  double memory = 0;
  double sending = 0;
  double total() const { return computing + memory + sending; }
};
StepTime step_time(const StepPlan& plan, const MachineProfile& machine);

// With examples of different lengths the memory is that of all of the largest batches, one after
// another, and the rest of the one with most tokens. Throws ConfigurationError for what the model,
// the data or the mesh cannot have. `ids`: of the data.
StepPlan plan_step(const RunConfig& settings,
                   const MeshShape& mesh,
                   const DataSizes& ids,
                   Processor processor);

// The layouts of `ranks` ranks that the model can have, with the least ZeRO (from that of the
// settings) and without sequence parallelism where it fits so in `memory` bytes a rank; 0: any.
// Those that do not fit follow, the smallest first; the others are sorted by time, or bytes where
// the machine is not known.
struct LayoutPlans {
  std::vector<StepPlan> fitting;
  std::vector<StepPlan> too_large;
  std::string refused;  // why the last layout of those that the model cannot have is none
};
LayoutPlans plan_layouts(const RunConfig& settings,
                         int ranks,
                         const MachineProfile& machine,
                         const DataSizes& ids);

// The settings with some keys set anew ("key=value"). Throws ConfigurationError.
using Reconfigure =
    std::function<std::shared_ptr<const RunConfig>(const std::vector<std::string>& keys)>;

// Keys that save memory, and the step with them.
struct MemorySaving {
  std::vector<std::string> keys;
  StepPlan plan;
};
// Of a step on its layout; those that the model cannot have are left out. Fewest keys first, and
// those last that make another model.
std::vector<MemorySaving> plan_savings(const Reconfigure& reconfigure,
                                       const StepPlan& plan,
                                       const DataSizes& ids);

// "weights 1.2 GB, gradients ...": the tags that take more than nothing.
std::string bytes_by_tag(const StepPlan& plan);

}  // namespace longspan
