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
    seconds();  // the first one chooses how it is made
  }

  double seconds() const {
    const Stopwatch stopwatch;
    on(device_, [&](auto backend) { matmul(backend, product_); });
    device_.wait();
    return stopwatch.seconds();
  }

 private:
  // With normal numbers: zeros take a GPU less power, and it makes products of them faster.
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

// What is large enough: on a GPU a product whose start does not count. What computes very slowly,
// as a processor that is only imitated, is not asked for a large one.
std::int64_t peak_size(const Device& device, DType dtype) {
  // float64 has simple kernels on a CPU, which reach no more with larger matrices and take seconds.
  const std::int64_t most = device.on_gpu() ? 8192 : dtype == DType::f64 ? 256 : 1024;
  const double long_enough = device.on_gpu() ? 1e-3 : 20e-3;
  std::int64_t size = 64;
  while (size < most && SquareProduct(size, dtype, device).seconds() < long_enough) size *= 2;
  return size;
}

}  // namespace

double matmul_peak(const Device& device, DType dtype, double seconds) {
  const std::int64_t size = peak_size(device, dtype);
  double best = std::numeric_limits<double>::infinity();
  {
    const SquareProduct product(size, dtype, device);
    const Stopwatch all;
    do best = std::min(best, product.seconds());
    while (all.seconds() < seconds);
  }
  device.allocator().trim();
  device.allocator().reset_peak();
  return 2.0 * static_cast<double>(size * size * size) / best;
}

}  // namespace longspan
