// What the benchmarks share that run on a CPU or, with `--device cuda`, on a GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan::bench {

// The device that the words ask for; "--device NAME" is taken from them. The CPU where nothing is
// said. The ranks of a machine take its GPUs in turn.
Device device_from(int& count, char** words, int local_rank = 0);

// Uniform numbers in [-0.5, 0.5), the same for the same name.
Tensor random_tensor(const Shape& shape, DType dtype, const Device& device, const char* name);

// Seconds of one call: on a GPU between two events on its stream, which waits until the call is
// queued, so that the time of the host is left out.
double seconds(const Device& device, const std::function<void()>& call);
// With the time of the host.
double wall_seconds(const Device& device, const std::function<void()>& call);
// Of many calls, after as many as a tenth of them and at least two to warm up.
struct Times {
  double best;
  double median;
};
Times times(const Device& device, int calls, const std::function<void()>& call);

// Floating-point operations a second of a large product of random factors (8192 x 8192 x 8192 on a
// GPU, 1024 x 1024 x 1024 on a CPU): the best of several; on a GPU, that is warm, of rows of ten.
double product_peak(const Device& device, DType dtype);

// Prints "metric NAME VALUE" as a line of standard error; launch/gpu-check has bounds for some of
// them. With LONGSPAN_HOPPER_WGMMA=1 the name begins with "hopper-wgmma/".
void figure(const std::string& name, double value);

}  // namespace longspan::bench
