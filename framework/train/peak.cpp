#include "framework/train/peak.h"

#include <algorithm>
#include <chrono>

#include "framework/kernels/matmul.h"

namespace longspan {

double matmul_peak(const Device& device, DType dtype, double seconds) {
  using Clock = std::chrono::steady_clock;
  // float64 has simple kernels, which reach no more with larger matrices and take seconds.
  const std::int64_t size = device.on_gpu() ? 8192 : dtype == DType::f64 ? 256 : 1024;
  const auto matrix = [&] {
    return Tensor::zeros({size, size}, dtype, device, MemoryTag::workspace);
  };
  Matmul product = {.a = matrix(), .b = matrix(), .c = matrix()};
  double best = 0;
  on(device, [&](auto backend) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    matmul(backend, product);
    device.wait();
    do {
      const auto begin = Clock::now();
      matmul(backend, product);
      device.wait();
      const std::chrono::duration<double> time = Clock::now() - begin;
      best = std::max(best, 2.0 * static_cast<double>(size * size * size) / time.count());
    } while (Clock::now() < end);
  });
  product = {};
  device.allocator().trim();
  device.allocator().reset_peak();
  return best;
}

}  // namespace longspan
