// Exact match: the fraction of answers equal to a reference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

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
