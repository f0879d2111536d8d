// Shared by benchmarks that run on a CPU or, with `--device cuda`, on a GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan::bench {

// Removes "--device NAME" from the arguments; returns the device, by default the CPU. Ranks of a
// machine use its GPUs in turn.
Device device_from(int& count, char** words, int local_rank = 0);

// Uniform numbers in [-0.5, 0.5), seeded by the name.
Tensor random_tensor(const Shape& shape, DType dtype, const Device& device, const char* name);

// Seconds of one call. On a GPU: between two events of its stream, which waits until the call is
// queued, to exclude time of the host.
double seconds(const Device& device, const std::function<void()>& call);
// Seconds of one call, with time of the host.
double wall_seconds(const Device& device, const std::function<void()>& call);
// Seconds per call, after a warm-up of a tenth of the calls, at least 2.
struct Times {
  double best;
  double median;
};
Times times(const Device& device, int calls, const std::function<void()>& call);

// FLOP/s of a large product of random factors, 8192 x 8192 x 8192 on a GPU and 1024 x 1024 x 1024
// on a CPU. The best of several repetitions; on a GPU, of ten products each, after a warm-up.
double product_peak(const Device& device, DType dtype);

// Prints the line "metric NAME VALUE" to standard error. launch/gpu-check has bounds for some
// metrics. With LONGSPAN_HOPPER_WGMMA=1 the name starts with "hopper-wgmma/".
void figure(const std::string& name, double value);

}  // namespace longspan::bench
