#include "framework/tasks/auxiliary_metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace longspan {

std::vector<double> sum_over(const Communicator& ranks, std::vector<double> numbers) {
  const std::int64_t most = ranks.all_reduce(std::ssize(numbers), Reduction::maximum);
  if (most == 0) return {};
  numbers.resize(static_cast<std::size_t>(most));
  const Tensor all = Tensor::from<double>(numbers, {most}, Device::cpu(), MemoryTag::workspace);
  ranks.all_reduce(all, Reduction::sum);
  return {all.span<double>().begin(), all.span<double>().end()};
}

void AuxiliaryMetricSums::add(const std::vector<AuxiliaryMetric>& watched, const Batch& batch) {
  sums_.resize(watched.size());
  for (std::size_t i = 0; i < watched.size(); ++i) {
    const AuxiliaryMetric& one = watched[i];
    Sums& all = sums_[i];
    all.name = one.name;
    all.largest = std::max(all.largest, one.largest);
    if (mesh_.tensor.rank() != 0) continue;
    all.sum += one.sum;
    // Context ranks read the same batch.
    if (mesh_.context.rank() == 0) all.count += static_cast<double>(batch.count(one.count));
    all.at.resize(std::max(all.at.size(), 2 * one.at.size()));
    for (std::size_t p = 0; p < one.at.size(); ++p) {
      all.at[2 * p] += one.at[p].sum;
      all.at[2 * p + 1] += one.at[p].rows;
    }
  }
}

void AuxiliaryMetricSums::give(Measurement& measured) const {
  for (const Sums& each : sums_) {
    const std::vector<double> means = sum_over(mesh_.world, {each.sum, each.count});
    const double largest = mesh_.world.all_reduce(each.largest, Reduction::maximum);
    const double mean = means[0] / std::max(means[1], 1.0);
    measured.metric_values.push_back({each.name + "_mean", mean});
    measured.metric_values.push_back({each.name + "_max", largest});
    measured.text += fmt::format(", {} {:.2f} (max {})", each.name, mean, largest);
    const std::vector<double> at = sum_over(mesh_.world, each.at);
    Curve curve = {.name = each.name, .values = {}};
    for (std::size_t p = 0; p + 1 < at.size() && at[p + 1] > 0; p += 2)
      curve.values.push_back(at[p] / at[p + 1]);
    if (!curve.values.empty()) measured.curves.push_back(std::move(curve));
  }
}

}  // namespace longspan
