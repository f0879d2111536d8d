#include "framework/nn/attention/random_projection.h"

#include <cmath>

#include "framework/core/async_copy.h"
#include "framework/kernels/element.h"

namespace longspan {
namespace {

double product(const double* a, const double* b, std::int64_t width) {
  double sum = 0;
  for (std::int64_t c = 0; c < width; ++c) sum += a[c] * b[c];
  return sum;
}

// Orthonormalizes the rows in order (Gram-Schmidt, applied twice for full precision).
void orthogonalize(double* rows, std::int64_t dim) {
  for (std::int64_t r = 0; r < dim; ++r) {
    double* const row = rows + r * dim;
    for (int again = 0; again < 2; ++again)
      for (std::int64_t before = 0; before < r; ++before) {
        const double along = product(row, rows + before * dim, dim);
        for (std::int64_t c = 0; c < dim; ++c) row[c] -= along * rows[before * dim + c];
      }
    const double length = std::sqrt(product(row, row, dim));
    for (std::int64_t c = 0; c < dim; ++c) row[c] /= length;
  }
}

std::vector<double> normal_numbers(const Random& random, std::int64_t count) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = random.normal_at(i);
  return numbers;
}

Tensor tensor_of(const std::vector<double>& numbers,
                 const Shape& shape,
                 DType dtype,
                 const Device& device) {
  const Tensor result = Tensor::empty(shape, dtype, device.host());
  dispatch_on_host(result.device(), [&] {
    with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
      for (std::size_t i = 0; i < numbers.size(); ++i)
        put(result.data<T>()[i], static_cast<Accumulator<T>>(numbers[i]));
    });
  });
  return copy_async(result, device, MemoryTag::activations);
}

}  // namespace

std::vector<double> orthogonal_rows(std::span<const double> gaussian,
                                    std::span<const double> lengths,
                                    std::int64_t count,
                                    std::int64_t dim) {
  std::vector<double> rows;
  std::vector<double> block(static_cast<std::size_t>(dim * dim));
  for (std::int64_t first = 0; first < count; first += dim) {
    const double* const from = gaussian.data() + first * dim;
    for (std::int64_t r = 0; r < dim; ++r)
      for (std::int64_t c = 0; c < dim; ++c)
        block[static_cast<std::size_t>(r * dim + c)] = from[c * dim + r];
    orthogonalize(block.data(), dim);
    for (std::int64_t r = 0; r < dim && first + r < count; ++r) {
      const double* const row = lengths.data() + (first + r) * dim;
      const double length =
          std::sqrt(lengths.empty() ? static_cast<double>(dim) : product(row, row, dim));
      for (std::int64_t c = 0; c < dim; ++c)
        rows.push_back(length * block[static_cast<std::size_t>(r * dim + c)]);
    }
  }
  return rows;
}

Tensor orthogonal_projection(
    const Random& random, std::int64_t count, std::int64_t dim, DType dtype, const Device& device) {
  const std::int64_t blocks = (count + dim - 1) / dim;
  const std::vector<double> gaussian =
      normal_numbers(random.child("directions"), blocks * dim * dim);
  const std::vector<double> lengths = normal_numbers(random.child("lengths"), count * dim);
  return tensor_of(orthogonal_rows(gaussian, lengths, count, dim), {count, dim}, dtype, device);
}

Tensor gaussian_projection(
    const Random& random, std::int64_t count, std::int64_t dim, DType dtype, const Device& device) {
  return tensor_of(normal_numbers(random, count * dim), {count, dim}, dtype, device);
}

}  // namespace longspan
