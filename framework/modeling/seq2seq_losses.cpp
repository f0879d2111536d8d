#include "framework/modeling/seq2seq_losses.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/element.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/monotonic_attention.h"

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

namespace {

Tensor zeros_of(const Fields& fields, const Ranges& positions) {
  const Tensor& source = field_of(fields, "source");
  return Tensor::zeros({source.shape()[0], total_count(positions), source.shape()[1]},
                       DType::f64,
                       source.device(),
                       MemoryTag::workspace);
}

}  // namespace

Tensor diagonal_guide(const Fields& fields, const Ranges& positions, double width) {
  const Tensor costs = zeros_of(fields, positions);
  if (costs.device().state().is_meta()) return costs;
  const auto sources = field_of(fields, "source_length").span<std::int64_t>();
  const auto targets = field_of(fields, "length").span<std::int64_t>();
  double* to = costs.data<double>();
  const std::int64_t columns = costs.shape()[2];
  for (std::size_t row = 0; row < sources.size(); ++row)
    for (const Range& range : positions)
      for (std::int64_t t = range.begin; t < range.end; ++t, to += columns)
        for (std::int64_t s = 0; t < targets[row] && s < sources[row]; ++s) {
          const double apart = static_cast<double>(s) / static_cast<double>(sources[row]) -
                               static_cast<double>(t) / static_cast<double>(targets[row]);
          to[s] = 1 - std::exp(-apart * apart / (2 * width * width));
        }
  return costs;
}

Tensor alignment_guide(const Fields& fields, const Ranges& positions) {
  const Tensor shares = zeros_of(fields, positions);
  const Tensor& links = field_of(fields, "links");
  if (shares.device().state().is_meta()) return shares;
  // Output row of each local position.
  std::vector<std::int64_t> place;
  for (std::int64_t row = 0; const Range& range : positions)
    for (std::int64_t t = range.begin; t < range.end; ++t, ++row) {
      place.resize(std::max(place.size(), static_cast<std::size_t>(t) + 1), -1);
      place[static_cast<std::size_t>(t)] = row;
    }
  const std::int64_t columns = shares.shape()[2], rows = shares.shape()[1];
  const auto most = links.shape()[1];
  for (std::int64_t batch = 0; batch < links.shape()[0]; ++batch) {
    for (std::int64_t i = batch * most; i < (batch + 1) * most; ++i) {
      const std::int64_t s = links.data<std::int64_t>()[2 * i];
      const std::int64_t t = links.data<std::int64_t>()[2 * i + 1];
      if (s < 0 || t >= std::ssize(place) || place[static_cast<std::size_t>(t)] < 0) continue;
      const std::int64_t row = batch * rows + place[static_cast<std::size_t>(t)];
      shares.data<double>()[row * columns + s] = 1;
    }
    // Links may be repeated; each position's weights are normalized by their number.
    for (std::int64_t row = 0; row < rows; ++row) {
      double* const here = shares.data<double>() + (batch * rows + row) * columns;
      double sum = 0;
      for (std::int64_t s = 0; s < columns; ++s) sum += here[s];
      for (std::int64_t s = 0; sum > 0 && s < columns; ++s) here[s] /= sum;
    }
  }
  return shares;
}

Tensor monotonic_guide(const Fields& fields, const Ranges& positions, const Tensor& attention) {
  const Device& device = attention.device();
  const MonotonicAttention call = {.attention = attention,
                                   .source = copy_async(field_of(fields, "source_length"), device),
                                   .target = copy_async(field_of(fields, "length"), device),
                                   .walk = attention.empty_like(MemoryTag::workspace)};
  const Tensor shares =
      Tensor::empty(attention.shape().with(1, total_count(positions)), attention.dtype(), device);
  on(device, [&](auto backend) {
    monotonic_attention(backend, call);
    std::int64_t row = 0;
    for (const Range& range : positions) {
      copy_rows(backend, call.walk, range.begin, shares, row, range.count(), false);
      row += range.count();
    }
  });
  return shares;
}

}  // namespace longspan
