#include "framework/planning/peak.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "framework/core/random.h"
#include "framework/core/stopwatch.h"
#include "framework/kernels/element.h"
#include "framework/kernels/matmul.h"

namespace longspan {

namespace {

// A product of square matrices.
class SquareProduct {
 public:
  SquareProduct(std::int64_t size, DType dtype, const Device& device) : device_(device) {
    const auto matrix = [&] {
      return Tensor::empty({size, size}, dtype, device, MemoryTag::workspace);
    };
    product_ = {.a = matrix(), .b = matrix(), .c = matrix()};
    fill(product_.a);
    fill(product_.b);
    seconds();  // the first product selects the algorithm
  }

  double seconds() const {
    const Stopwatch stopwatch;
    on(device_, [&](auto backend) { matmul(backend, product_); });
    device_.synchronize();
    return stopwatch.seconds();
  }

 private:
  // Normally distributed values: zeros need less GPU power, which makes products faster.
  static void fill(const Tensor& matrix) {
    const std::int64_t width = matrix.shape().width();
    Tensor numbers;
    with_floating_type(matrix.dtype(), [&]<typename T>(TypeTag<T>) {
      const Random random(1);
      std::vector<T> drawn;
      for (std::int64_t i = 0; i < 2 * width; ++i)
        drawn.push_back(T(static_cast<float>(random.normal_at(static_cast<std::uint64_t>(i)))));
      numbers = Tensor::from<T>(drawn, {2 * width}, matrix.device().host());
    });
    for (std::int64_t i = 0; i < matrix.shape().rows(); ++i)
      matrix.slice(i, i + 1).copy_from(
          numbers.slice(i % width, i % width + width).reshape({1, width}));
  }

  Device device_;
  Matmul product_;
};

}  // namespace

double matmul_peak(const Device& device, DType dtype, double seconds) {
  // CPU kernels for float64 are simple: larger matrices take seconds without a higher rate.
  const std::int64_t largest = device.on_gpu() ? 8192 : dtype == DType::f64 ? 256 : 1024;
  // Long enough to hide the launch overhead. Very slow processors, such as emulated ones, do not
  // reach larger sizes.
  const double long_enough = device.on_gpu() ? 1e-3 : 20e-3;
  double best = 0;
  double fastest = 0;
  // Where other processes share the cores, only small products find all threads running.
  for (std::int64_t size = 64; size <= largest && fastest < long_enough; size *= 2) {
    const SquareProduct product(size, dtype, device);
    fastest = std::numeric_limits<double>::infinity();
    const Stopwatch all;
    do fastest = std::min(fastest, product.seconds());
    while (all.seconds() < seconds / 5);
    best = std::max(best, 2.0 * static_cast<double>(size * size * size) / fastest);
  }
  device.allocator().trim();
  device.allocator().reset_peak();
  return best;
}

}  // namespace longspan
