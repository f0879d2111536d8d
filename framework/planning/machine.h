// What a rank has to compute with, for predictions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/dtype.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Numbers of one rank's share of a machine; 0: not known.
struct MachineProfile {
  std::string name;
  double memory = 0;            // bytes
  double flops = 0;             // a second, attained in a training step in float32
  double tf32_flops = 0;        // the same with precision.allow_tf32
  double bf16_flops = 0;        // in bf16
  double f16_flops = 0;         // in f16, which a CPU emulates
  double memory_bandwidth = 0;  // bytes a second, read and written
  double bandwidth = 0;         // bytes a second that a rank sends to others
  int ranks = 1;                // that shared the machine while it was measured
  int threads = 0;              // of each of them; 0: not measured
  // Of real steps that were made while it was measured: what was predicted over what was measured,
  // the least and the most; 0: not known.
  double least_trial = 0;
  double most_trial = 0;
  Processor processor = Processor::cpu;

  double flops_of(DType dtype) const {
    return dtype == DType::bf16 ? bf16_flops : dtype == DType::f16 ? f16_flops : flops;
  }
};

// Processors whose datasheets are known; a rank has one to itself.
const std::vector<MachineProfile>& known_gpus();

// Bytes that one of `local_ranks` ranks of this machine may still take: its share of what is free
// in the system, or in the control group of this process, and no more than a process may have
// (ulimit -v). 0: not known.
double memory_of_rank(int local_ranks);
// Threads that the processes of this machine may still start: what RLIMIT_NPROC and the control
// groups of this process allow. Nothing where there is no limit. `groups` lists the groups, as
// /proc/self/cgroup does, whose folders are below `root`.
std::optional<double> threads_left(const std::filesystem::path& groups = "/proc/self/cgroup",
                                   const std::filesystem::path& root = "/sys/fs/cgroup");
// Bytes of a GPU that one of `sharing` ranks may still take, beside what the driver takes for
// kernels when they are first started.
double memory_of_gpu(int gpu, int sharing);

// What a rank may still take on its device, of the rank that may take least. Collective, and the
// same on all.
struct MemoryShare {
  double bytes = 0;  // 0: not known
  int ranks = 1;     // that share a machine or a GPU, at most
};
MemoryShare memory_share(const Communicator& world, const Device& device, int local_ranks);

// What each of `ranks` ranks of `threads` threads has of a machine that was measured: its threads'
// part of a measured rank, or where they are more than were busy then an even share of the whole.
// Links are shared evenly.
MachineProfile shared_among(const MachineProfile& measured, int ranks, int threads);

// As JSON and back; throw Failure and DataError, naming the file.
void write_machine(const MachineProfile& machine, const std::string& path);
MachineProfile read_machine(const std::string& path);

}  // namespace longspan
