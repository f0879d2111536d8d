#include "framework/modeling/pointer_generator_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/kernels/wide_on_host.h"

namespace longspan {
namespace {

// Returns the log-sum-exp of each row over the full vocabulary.
std::vector<double> log_sums(const Tensor& logits, const Communicator& tensor) {
  const std::int64_t rows = logits.shape().rows(), width = logits.shape().width();
  const auto each = [&](const auto& of_row) {
    const Tensor result = Tensor::empty({rows}, DType::f64, logits.device(), MemoryTag::workspace);
    for (std::int64_t row = 0; row < rows; ++row)
      result.data<double>()[row] = of_row(row, logits.data<double>() + row * width);
    return result;
  };
  const Tensor largest = each([&](std::int64_t, const double* x) {
    return width == 0 ? -std::numeric_limits<double>::infinity() : *std::max_element(x, x + width);
  });
  tensor.all_reduce(largest, Reduction::maximum);
  const Tensor sums = each([&](std::int64_t row, const double* x) {
    double sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += std::exp(x[i] - largest.data<double>()[row]);
    return sum;
  });
  tensor.all_reduce(sums, Reduction::sum);
  std::vector<double> result;
  for (std::int64_t row = 0; row < rows; ++row)
    result.push_back(largest.data<double>()[row] + std::log(sums.data<double>()[row]));
  return result;
}

}  // namespace

Tensor pointer_generator_logits(const PointerGeneratorLogits& of,
                                const ShardRange& part,
                                const Communicator& tensor) {
  const Tensor scores = to_host_f64(of.logits);
  if (scores.device().state().is_meta()) return scores;
  const Tensor gate = to_host_f64(of.gate), attention = to_host_f64(of.attention);
  const std::int64_t time = of.gate.shape()[1], columns = of.attention.shape()[2];
  const std::int64_t positions = of.source.shape()[1];
  const std::int64_t num_rows = scores.shape()[1];
  const std::vector<double> sums = log_sums(scores, tensor);
  std::vector<double> copied(static_cast<std::size_t>(part.count));
  for (std::int64_t row = 0; row < scores.shape().rows(); ++row) {
    const std::int64_t batch = row / num_rows;
    const std::int64_t place = batch * time + (of.only_last ? time - 1 : row % num_rows);
    std::ranges::fill(copied, 0);
    for (std::int64_t s = 0; s < positions; ++s) {
      const std::int64_t id = of.source.data<std::int64_t>()[batch * positions + s] - part.begin;
      if (id >= 0 && id < part.count)
        copied[static_cast<std::size_t>(id)] += attention.data<double>()[place * columns + s];
    }
    const double opens = 1 / (1 + std::exp(-gate.data<double>()[place]));
    double* const here = scores.data<double>() + row * part.count;
    for (std::int64_t i = 0; i < part.count; ++i)
      here[i] = std::log(opens * std::exp(here[i] - sums[static_cast<std::size_t>(row)]) +
                         (1 - opens) * copied[static_cast<std::size_t>(i)]);
  }
  return scores;
}

}  // namespace longspan
