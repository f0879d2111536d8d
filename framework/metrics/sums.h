// Metrics as sums that add over ranks. A metric is a struct of integers and real numbers. Its
// static `each_sum(metric, f)` calls f on each of them in a fixed order. So any number of metrics
// is flattened into one vector, which one all_reduce sums. Integers are exact below 2^53.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "framework/core/error.h"

namespace longspan {

// Appends the sums of a metric to `sums`.
template <typename Metric>
void append_sums(const Metric& metric, std::vector<double>& sums) {
  Metric::each_sum(metric, [&](const auto& sum) { sums.push_back(static_cast<double>(sum)); });
}

// Reads the metric's sums from the front of `sums` and returns the rest. Throws Failure where there
// are too few.
template <typename Metric>
std::span<const double> consume_sums(Metric& metric, std::span<const double> sums) {
  Metric::each_sum(metric, [&](auto& sum) {
    require(!sums.empty(), "expected more sums for the metrics");
    sum = static_cast<std::remove_reference_t<decltype(sum)>>(sums.front());
    sums = sums.subspan(1);
  });
  return sums;
}

}  // namespace longspan
