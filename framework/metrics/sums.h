// Metrics as sums that add over ranks. A metric is a struct of whole and real numbers; its static
// `each_sum(metric, f)` calls f on every one of them, in one order. So any number of metrics
// becomes one flat vector, which a job sums by one all_reduce. Whole numbers are exact below 2^53.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "framework/core/error.h"

namespace longspan {

// Appends the sums of a metric to those that are there.
template <typename Metric>
void append_sums(const Metric& metric, std::vector<double>& sums) {
  Metric::each_sum(metric, [&](const auto& sum) { sums.push_back(static_cast<double>(sum)); });
}

// Writes the first of `sums` into a metric that has as many as the one they are from, and returns
// the rest of them. Throws Failure where there are fewer.
template <typename Metric>
std::span<const double> take_sums(Metric& metric, std::span<const double> sums) {
  Metric::each_sum(metric, [&](auto& sum) {
    require(!sums.empty(), "a metric was to be read from fewer sums than it has");
    sum = static_cast<std::remove_reference_t<decltype(sum)>>(sums.front());
    sums = sums.subspan(1);
  });
  return sums;
}

}  // namespace longspan
