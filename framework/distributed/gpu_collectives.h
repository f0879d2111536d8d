// What carries the collectives of tensors on GPUs.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/distributed/process_mesh.h"

namespace longspan {

struct LaunchOrder;
class PeriodicThread;

// nccl: from GPU to GPU, of which each rank needs one of its own. mpi: through pinned memory of the
// host, as host tensors are carried. automatic: NCCL where it can be used.
enum class GpuTransport : std::uint8_t { automatic, nccl, mpi };

// How many ranks have the GPU of this one. Collective.
int ranks_of_gpu(const Communicator& world, const Device& device);

// While it lives, NCCL carries the collectives of tensors on `device` within the groups of a mesh,
// where it is chosen, and a host that waits for the device notices when one of them fails.
class GpuCollectives {
 public:
  // Collective over the world: the ranks agree. Tries each group's links with a small sum. Throws
  // ConfigurationError, on all ranks, where NCCL is demanded and cannot be used.
  GpuCollectives(GpuTransport wanted, const ProcessMesh& mesh, const Device& device);
  GpuCollectives(const GpuCollectives&) = delete;
  GpuCollectives& operator=(const GpuCollectives&) = delete;
  // In good order it waits for the other ranks to come here too; while an exception is on its way
  // it ends what the GPU has under way.
  ~GpuCollectives();

  bool nccl() const { return absence_.empty(); }
  // Why it is not NCCL, as a clause; empty where it is.
  const std::string& unavailable_reason() const { return absence_; }

 private:
  void connect(const Communicator& communicator);
  // Throws RankError where the links of the group do not add. `moves_rows`: whether it has
  // exchanges and all_to_all.
  void self_test(const Communicator& communicator, bool moves_rows) const;
  // Makes calls of each kind that it has: NCCL takes memory for one when it is first made, and how
  // much of the GPU's the model may have is asked after this.
  void warm_up(const Communicator& communicator, bool moves_rows) const;
  // Ends what this rank has left alone for that long.
  void abort_if_stuck(std::chrono::duration<double> patience) const;

  Device device_;
  int exceptions_;
  std::string absence_;
  std::shared_ptr<LaunchOrder> turns_;
  mutable std::mutex groups_mutex_;   // while they are made
  std::vector<Communicator> groups_;  // that have links
  std::unique_ptr<PeriodicThread> watch_;
};

}  // namespace longspan
