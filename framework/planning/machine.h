// Performance profile of a rank's hardware, for predictions, and its measurement.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/dtype.h"
#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/modeling/family.h"

namespace longspan {

// One rank's share of a machine; 0: unknown.
struct MachineProfile {
  std::string name;
  double memory = 0;            // bytes
  double flops = 0;             // FLOP/s attained in a training step in float32
  double tf32_flops = 0;        // FLOP/s with precision.allow_tf32
  double bf16_flops = 0;        // FLOP/s in bf16
  double f16_flops = 0;         // FLOP/s in f16, which a CPU emulates
  double memory_bandwidth = 0;  // bytes per second, read and written
  double bandwidth = 0;         // bytes per second that a rank sends to others
  int ranks = 1;                // that shared the machine during the measurement
  int threads = 0;              // per rank; 0: not measured
  // Lowest and highest ratio of predicted to measured time over the trial steps; 0: unknown.
  double min_trial = 0;
  double max_trial = 0;
  Processor processor = Processor::cpu;

  double flops_of(DType dtype) const {
    return dtype == DType::bf16 ? bf16_flops : dtype == DType::f16 ? f16_flops : flops;
  }
};

// Returns profiles of GPUs with known datasheets, one rank per GPU.
const std::vector<MachineProfile>& known_gpus();

// Returns the bytes that each of `local_ranks` ranks of this machine may still allocate. It is a
// share of the free memory of the system or of this process's cgroup, limited by RLIMIT_AS (ulimit
// -v). 0: unknown.
double memory_of_rank(int local_ranks);
// Returns how many threads the processes of this machine may still start, given RLIMIT_NPROC and
// this process's cgroups; nullopt: unlimited. `groups` lists the cgroups in the format of
// /proc/self/cgroup, and `root` has their directories.
std::optional<double> threads_left(const std::filesystem::path& groups = "/proc/self/cgroup",
                                   const std::filesystem::path& root = "/sys/fs/cgroup");
// Returns the bytes of a GPU that each of `sharing` ranks may still allocate. It excludes the
// memory that the driver uses when kernels are first launched.
double memory_of_gpu(int gpu, int sharing);

// Collective; equal on all ranks. Memory that a rank may still allocate on its device, the minimum
// over ranks.
struct MemoryShare {
  double bytes = 0;  // 0: unknown
  int ranks = 1;     // maximum number that share a machine or a GPU
};
MemoryShare memory_share(const Communicator& world, const Device& device, int local_ranks);

// Returns the profile of each of `ranks` ranks with `threads` threads on a measured machine.
// Compute scales with the threads of a measured rank; with more threads than were busy, the total
// is divided evenly. Links are divided evenly.
MachineProfile shared_among(const MachineProfile& measured, int ranks, int threads);

// As JSON. Throw Failure and DataError, which name the file.
void write_machine(const MachineProfile& machine, const std::string& path);
MachineProfile read_machine(const std::string& path);

// Returns the peak FLOP/s of square matrix products of `dtype` with this process's threads. Sizes
// go up to 1024 (float64: 256), or on a GPU up to a product of one millisecond. The best of the
// runs in about `seconds` counts.
double matmul_peak(const Device& device, DType dtype, double seconds = 0.1);

// Measures the performance of this machine under a training workload.

// A language model of 256 ids, and a rank's input per step.
struct CalibrationModel {
  std::int64_t streams = 1;
  std::int64_t segment = 1;
  BackboneFactory body;
};

struct CalibrationModels {
  CalibrationModel measured;
  std::vector<CalibrationModel> trials;
};

// Collective. Measures one rank's share while all ranks of `world` measure, `local_ranks` of them
// on this machine, each with the configured threads. It measures the step of one model, a sum of
// long vectors and, with several ranks, an all-reduce. Then it predicts and measures steps of the
// trial models, which bounds the prediction error. The caller sets the memory. Takes some seconds.
MachineProfile measure_machine(const Communicator& world,
                               int local_ranks,
                               const CalibrationModels& models);

}  // namespace longspan
