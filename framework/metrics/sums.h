// Metrics as sums that add over ranks. A metric is a struct of integers and real numbers. Its
// static `each_sum(metric, f)` calls f on each of them in a fixed order. So any number of metrics
// is flattened into one vector, which one all_reduce sums. Integers are exact below 2^53.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "framework/core/error.h"
#include "framework/metrics/metric_value.h"

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

// Likelihood of a corpus under a language model.
struct Likelihood {
  double nats = 0;          // sum of the tokens' losses
  std::int64_t tokens = 0;  // predicted tokens
  std::int64_t bytes = 0;   // bytes of text of those tokens

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    f(self.nats);
    f(self.tokens);
    f(self.bytes);
  }
};

// Returns "loss", "perplexity", "bits_per_byte"; NaN without predicted tokens.
inline std::vector<MetricValue> metric_values(const Likelihood& likelihood) {
  const double loss = likelihood.nats / static_cast<double>(likelihood.tokens);
  const double bits = likelihood.nats / std::log(2.0);
  return {{"loss", loss, "nats per token"},
          {"perplexity", std::exp(loss), ""},
          {"bits_per_byte", bits / static_cast<double>(likelihood.bytes), "bits per byte"}};
}

// Exact match: the fraction of answers equal to a reference.
struct ExactMatch {
  std::int64_t matches = 0;
  std::int64_t total = 0;

  // Counts a match where the hypothesis equals one of the references, byte for byte.
  void add(std::string_view hypothesis, std::span<const std::string> references) {
    ++total;
    matches += std::ranges::find(references, hypothesis) != references.end() ? 1 : 0;
  }

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    f(self.matches);
    f(self.total);
  }
};

// Returns "exact_match".
inline std::vector<MetricValue> metric_values(const ExactMatch& match) {
  return {{"exact_match",
           percent(static_cast<double>(match.matches), static_cast<double>(match.total)),
           "percent"}};
}

}  // namespace longspan
