// Plans memory and time of a run before allocation: a step runs on a dry device and a dry mesh, so
// the plan uses the training code itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/distributed/process_mesh.h"
#include "framework/modeling/model.h"
#include "framework/planning/machine.h"
#include "framework/tasks/task.h"

namespace longspan {

// One rank's part of a step with a full memory.
struct StepPlan {
  MeshShape mesh;
  Processor processor = Processor::cpu;
  int zero = 0;
  DType compute = DType::f32;
  MemoryReport memory;          // peaks by tag, their sum, and memory reserved from the system
  std::int64_t parameters = 0;  // of the unsharded model
  double tokens = 0;            // of the global batch
  double flops = 0;             // computed by this rank, including recomputation
  double touched = 0;           // bytes that this rank reads and writes: 3 times its allocations
  Traffic traffic;              // of this rank

  double bytes() const { return static_cast<double>(memory.reserved); }
};

// Returns the shapes of the batches, known or allowed by the keys, one of which needs the most
// memory. For separate examples; empty for streams.
std::vector<BatchShape> largest_batches(const RunConfig& settings,
                                        const ProcessMesh& mesh,
                                        const DataSizes& ids);
// Returns the batch for time and FLOPs: of known batches the one with the most tokens.
MetaBatch usual_batch(const RunConfig& settings,
                      const ProcessMesh& mesh,
                      const Device& host,
                      const DataSizes& ids);

// Seconds of a step without overlap, an upper bound if the machine profile holds. Parts are 0 where
// the machine profile is unknown.
struct StepTime {
  double computing = 0;
  double memory = 0;
  double sending = 0;
  double total() const { return computing + memory + sending; }
};
StepTime step_time(const StepPlan& plan, const MachineProfile& machine);

// Plans a step. With examples of different lengths the memory covers all of the largest batches, in
// sequence; other values are for the batch with the most tokens. A sequence of many chunks is
// extrapolated from shorter ones. Throws ConfigurationError for what the model, the data or the
// mesh do not support. `ids`: of the data.
StepPlan plan_step(const RunConfig& settings,
                   const MeshShape& mesh,
                   const DataSizes& ids,
                   Processor processor);

// As above, but plans every chunk, however many.
StepPlan plan_every_chunk(const RunConfig& settings,
                          const MeshShape& mesh,
                          const DataSizes& ids,
                          Processor processor);

// Plans of sequences that are read in chunks, as a function of their length. Memory grows linearly
// with the number of chunks, and work at most quadratically.
class ChunkedPlans {
 public:
  // plan(n): plans a sequence of n chunks, for few n.
  explicit ChunkedPlans(const std::function<StepPlan(std::int64_t chunks)>& plan);

  // A sequence of at most as many chunks is planned as it is.
  static constexpr std::int64_t most_planned = 64;
  // The shortest chunk that is suggested, since shorter ones are slow.
  static constexpr std::int64_t shortest_chunk = 512;
  // Returns whether the sequences of few chunks grow that way. A window of many chunks does not.
  bool is_confirmed() const;
  StepPlan at(double chunks) const;
  // Returns the number of chunks that fit in `memory` bytes.
  double longest(double memory) const;

 private:
  std::vector<StepPlan> plans_;
};

// Layouts of `ranks` ranks that the model supports. Each has the lowest ZeRO stage (at least the
// configured one), and no sequence parallelism, that fits in `memory` bytes per rank; 0: unlimited.
// Fitting layouts are sorted by time, or by bytes if the machine is unknown. Those that do not fit
// follow, smallest first.
struct LayoutPlans {
  std::vector<StepPlan> fitting;
  std::vector<StepPlan> too_large;
  std::string refused;  // why the last unsupported layout is rejected
};
LayoutPlans plan_layouts(const RunConfig& settings,
                         int ranks,
                         const MachineProfile& machine,
                         const DataSizes& ids);

// Returns the configuration with some keys changed ("key=value"). Throws ConfigurationError.
using Reconfigure =
    std::function<std::shared_ptr<const RunConfig>(const std::vector<std::string>& keys)>;

// Keys that save memory, and the step plan with them.
struct MemorySaving {
  std::vector<std::string> keys;
  StepPlan plan;
};
// Returns memory savings for the layout of a plan, without unsupported ones. Fewest keys first;
// those that change the model come last. A chunk length is the longest, which is the fastest, that
// fits in `memory` bytes, or else the shortest tried.
std::vector<MemorySaving> plan_savings(const Reconfigure& reconfigure,
                                       const StepPlan& plan,
                                       double memory,
                                       const DataSizes& ids);

// Returns the keys for reading sequences in chunks. Chunks of the feed-forward layer and of the
// loss would then only be slower.
std::vector<std::string> bptt_chunk_keys(const RunConfig& settings, std::int64_t chunk_length);

// Longest sequence of a layout that fits in the memory of a rank.
struct LongestSequence {
  std::vector<std::string> keys = {};  // memory.bptt_chunk_length, and others for chunks
  bool in_chunks = false;
  std::int64_t tokens = 0;  // 0: none fits
  StepPlan plan = {};
  std::string limit = {};  // what excludes longer ones, if not the memory
};
// Returns the longest sequence in one pass, and that in chunks of the best length. Requires a task
// that reads streams.
std::vector<LongestSequence> longest_sequences(const Reconfigure& reconfigure,
                                               const StepPlan& plan,
                                               double memory,
                                               const DataSizes& ids);

// "weights 1.2 GB, gradients ...": the tags with non-zero memory.
std::string bytes_by_tag(const StepPlan& plan);

// Runs a rollout of all environments of a rank on a dry device, with recurrent state of maximum
// length. The device's peak restarts with it. Returns what is retained while training on the
// rollout: the recurrent state at its start and at its end.
std::vector<RecurrentState> meta_rollout(const Model& model, const MetaBatch& wanted);

}  // namespace longspan
