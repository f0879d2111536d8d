#include "framework/train/peak.h"

#include <algorithm>

#include "framework/kernels/matmul.h"
#include "framework/train/stopwatch.h"

namespace longspan {

double matmul_peak(const Device& device, DType dtype, double seconds) {
  // float64 has simple kernels, which reach no more with larger matrices and take seconds.
  const std::int64_t size = device.on_gpu() ? 8192 : dtype == DType::f64 ? 256 : 1024;
  const auto matrix = [&] {
    return Tensor::zeros({size, size}, dtype, device, MemoryTag::workspace);
  };
  Matmul product = {.a = matrix(), .b = matrix(), .c = matrix()};
  double best = 0;
  on(device, [&](auto backend) {
    const Stopwatch all;
    matmul(backend, product);
    device.wait();
    do {
      const Stopwatch stopwatch;
      matmul(backend, product);
      device.wait();
      best = std::max(best, 2.0 * static_cast<double>(size * size * size) / stopwatch.seconds());
    } while (all.seconds() < seconds);
  });
  product = {};
  device.allocator().trim();
  device.allocator().reset_peak();
  return best;
}

}  // namespace longspan
