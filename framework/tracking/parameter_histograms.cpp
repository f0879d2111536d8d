#include "framework/tracking/parameter_histograms.h"

#include <algorithm>
#include <limits>

namespace longspan {
namespace {

// Histograms of `values` of the shards that this rank owns.
template <typename Values>
std::vector<NamedHistogram> own_histograms(const Parameters& parameters,
                                           const std::string& what,
                                           double factor,
                                           const Values& values) {
  std::vector<NamedHistogram> result;
  for (const auto& parameter : parameters.trained()) {
    if (!parameters.reads(*parameter)) continue;
    const bool counts =
        parameters.is_primary_owner(*parameter) && parameter->shard_begin < parameter->shard_end;
    result.push_back({what + "/" + parameter->name, {}});
    // One at a time, so that the host holds only one copy of a GPU's weights.
    if (counts) result.back().histogram = histogram_of(values(*parameter).to_host(), factor);
  }
  return result;
}

}  // namespace

std::vector<NamedHistogram> own_weight_histograms(const Parameters& parameters) {
  return own_histograms(
      parameters, "weights", 1, [](const Parameter& each) { return each.shard_master; });
}

std::vector<NamedHistogram> own_gradient_histograms(const Parameters& parameters, double scale) {
  return own_histograms(parameters, "gradients", 1 / scale, [](const Parameter& each) {
    return each.shard_gradient;
  });
}

std::vector<NamedHistogram> all_reduce_histograms(std::vector<NamedHistogram> own,
                                                  const Communicator& world) {
  constexpr double none = std::numeric_limits<double>::infinity();
  const std::size_t buckets = histogram_buckets();
  const auto rows = std::ssize(own);
  const Device host = Device::cpu();
  const auto columns = static_cast<std::int64_t>(buckets) + 2;
  const Tensor sums = Tensor::zeros({rows, columns}, DType::f64, host, MemoryTag::workspace);
  const Tensor ends = Tensor::zeros({rows, 2}, DType::f64, host, MemoryTag::workspace);
  const auto row_of = [](const Tensor& tensor, std::int64_t row) {
    const auto width = static_cast<std::size_t>(tensor.shape()[1]);
    return tensor.span<double>().subspan(static_cast<std::size_t>(row) * width, width);
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    const Histogram& mine = own[static_cast<std::size_t>(i)].histogram;
    const auto numbers = row_of(sums, i);
    std::ranges::transform(
        mine.counts, numbers.begin(), [](auto count) { return static_cast<double>(count); });
    numbers[buckets] = mine.sum;
    numbers[buckets + 1] = mine.sum_of_squares;
    row_of(ends, i)[0] = mine.counts.empty() ? none : mine.smallest;
    row_of(ends, i)[1] = mine.counts.empty() ? none : -mine.largest;
  }
  world.all_reduce(sums, Reduction::sum);
  world.all_reduce(ends, Reduction::minimum);
  for (std::int64_t i = 0; i < rows; ++i) {
    Histogram& whole = own[static_cast<std::size_t>(i)].histogram;
    const auto numbers = row_of(sums, i);
    whole = {};
    if (row_of(ends, i)[0] == none) continue;
    whole.counts.resize(buckets);
    std::ranges::transform(numbers.first(buckets), whole.counts.begin(), [](double count) {
      return static_cast<std::int64_t>(count);
    });
    whole.smallest = row_of(ends, i)[0];
    whole.largest = -row_of(ends, i)[1];
    whole.sum = numbers[buckets];
    whole.sum_of_squares = numbers[buckets + 1];
  }
  return own;
}

}  // namespace longspan
