#include "framework/tracking/metrics_record.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

namespace longspan {
namespace {

std::string_view name_of(MetricGroup group) {
  switch (group) {
    case MetricGroup::training:
      return "training";
    case MetricGroup::validation:
      return "validation";
    case MetricGroup::time:
      return "time";
    case MetricGroup::memory:
      return "memory";
  }
  return "";
}

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

double seconds_of_the_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string column_of(const MetricField& field) {
  return field.group == MetricGroup::validation ? "validation_" + field.name : field.name;
}

std::string tag_of(const MetricField& field) {
  return std::string(name_of(field.group)) + "/" + field.name;
}

double number_of(const MetricField& field) {
  return std::visit([](auto value) { return static_cast<double>(value); }, field.value);
}

namespace {

// A bucket's index is the leading bits of a double without its sign: the exponent and three bits of
// mantissa. So bucket ends are exact, without a rounded logarithm.
constexpr int bits_left_out = 52 - 3;
constexpr double least = 0x1p-40;
constexpr double most = 0x1p24;

constexpr std::uint64_t leading_bits(double magnitude) {
  return std::bit_cast<std::uint64_t>(magnitude) >> bits_left_out;
}

constexpr std::uint64_t first = leading_bits(least);
constexpr std::size_t one_side = leading_bits(most) - first;  // buckets per sign
constexpr std::size_t middle = one_side;                      // around zero

// Returns the lower magnitude bound of bucket `i` of one sign, counted from zero.
double nearer_end(std::size_t i) { return std::bit_cast<double>((first + i) << bits_left_out); }

// Adds an element to all but the counts. `is_first`: the histogram is empty.
void add(Histogram& histogram, double value, bool is_first) {
  histogram.smallest = is_first ? value : std::min(histogram.smallest, value);
  histogram.largest = is_first ? value : std::max(histogram.largest, value);
  histogram.sum += value;
  histogram.sum_of_squares += value * value;
}

// Sums fixed-size chunks in order, so that the result is bitwise independent of the number of
// threads.
template <typename T>
Histogram histogram_of_elements(std::span<const T> elements, double factor) {
  constexpr std::size_t piece = 1 << 16;
  const auto pieces = static_cast<std::int64_t>((elements.size() + piece - 1) / piece);
  std::vector<Histogram> parts(static_cast<std::size_t>(pieces));
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (std::int64_t i = 0; i < pieces; ++i) {
    Histogram& part = parts[static_cast<std::size_t>(i)];
    const std::size_t begin = static_cast<std::size_t>(i) * piece;
    for (const T element : elements.subspan(begin, std::min(piece, elements.size() - begin))) {
      const double value = static_cast<double>(element) * factor;
      if (!std::isfinite(value)) continue;
      add(part, value, part.counts.empty());
      if (part.counts.empty()) part.counts.resize(histogram_buckets());
      ++part.counts[bucket_of(value)];
    }
  }
  Histogram whole;
  for (const Histogram& part : parts) whole = added(whole, part);
  return whole;
}

}  // namespace

std::size_t histogram_buckets() { return 2 * one_side + 1; }

double upper_end_of_bucket(std::size_t bucket) {
  return bucket >= middle ? nearer_end(bucket - middle) : -nearer_end(middle - bucket - 1);
}

std::size_t bucket_of(double value) {
  const double magnitude = std::abs(value);
  if (magnitude < least) return middle;
  const std::size_t i =
      magnitude < most ? static_cast<std::size_t>(leading_bits(magnitude) - first) : one_side - 1;
  return value > 0 ? middle + 1 + i : middle - 1 - i;
}

std::int64_t Histogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

Histogram histogram_of(const Tensor& tensor, double factor) {
  return tensor.dtype() == DType::f64 ? histogram_of_elements<double>(tensor.span<double>(), factor)
                                      : histogram_of_elements<float>(tensor.span<float>(), factor);
}

Histogram added(const Histogram& one, const Histogram& other) {
  if (one.counts.empty()) return other;
  if (other.counts.empty()) return one;
  Histogram sum = one;
  for (std::size_t i = 0; i < sum.counts.size(); ++i) sum.counts[i] += other.counts[i];
  sum.smallest = std::min(sum.smallest, other.smallest);
  sum.largest = std::max(sum.largest, other.largest);
  sum.sum += other.sum;
  sum.sum_of_squares += other.sum_of_squares;
  return sum;
}

Bars bars_of(const Histogram& histogram) {
  Bars bars;
  const auto is_full = [](std::int64_t count) { return count > 0; };
  const auto begin = std::ranges::find_if(histogram.counts, is_full);
  std::size_t bucket = static_cast<std::size_t>(begin - histogram.counts.begin());
  for (std::int64_t left = histogram.count(); left > 0; ++bucket) {
    const std::int64_t count = histogram.counts[bucket];
    left -= count;
    const bool goes_on = count == 0 && bars.counts.back() == 0;
    if (!goes_on) bars.counts.push_back(static_cast<double>(count));
    if (!goes_on) bars.upper_ends.push_back(0);
    bars.upper_ends.back() = upper_end_of_bucket(bucket);
  }
  return bars;
}

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
