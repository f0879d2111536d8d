// Precision, recall and F1, of classes and of spans.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

// Counts of correct, predicted and reference items.
struct RetrievalCounts {
  std::int64_t right = 0;  // true positives
  std::int64_t predicted = 0;
  std::int64_t reference = 0;

  // All in percent; 0 where the denominator is 0.
  double precision() const {
    return percent(static_cast<double>(right), static_cast<double>(predicted));
  }
  double recall() const {
    return percent(static_cast<double>(right), static_cast<double>(reference));
  }
  // Equals 2 P R / (P + R).
  double f1() const {
    return percent(2 * static_cast<double>(right), static_cast<double>(predicted + reference));
  }

  RetrievalCounts& operator+=(const RetrievalCounts& other) {
    right += other.right;
    predicted += other.predicted;
    reference += other.reference;
    return *this;
  }
};

// Returns the total over classes or types.
inline RetrievalCounts total_of(const std::vector<RetrievalCounts>& kinds) {
  RetrievalCounts total;
  for (const RetrievalCounts& kind : kinds) total += kind;
  return total;
}

// Appends "precision/NAME", "recall/NAME" and "f1/NAME" of each class or type.
inline void append_figures(const std::vector<RetrievalCounts>& kinds,
                           const std::vector<std::string>& names,
                           std::vector<MetricValue>& figures) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    figures.push_back({"precision/" + names[i], kinds[i].precision(), "percent"});
    figures.push_back({"recall/" + names[i], kinds[i].recall(), "percent"});
    figures.push_back({"f1/" + names[i], kinds[i].f1(), "percent"});
  }
}

template <typename Kinds, typename F>
void each_retrieval_sum(Kinds& kinds, const F& f) {
  for (auto& kind : kinds) {
    f(kind.right);
    f(kind.predicted);
    f(kind.reference);
  }
}

}  // namespace longspan
