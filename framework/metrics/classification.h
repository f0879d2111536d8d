// Accuracy, and precision, recall and F1 of each class, for single-label classification.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/metrics/metric_value.h"
#include "framework/metrics/retrieval.h"

namespace longspan {

class Classification {
 public:
  explicit Classification(std::int64_t classes) : classes_(static_cast<std::size_t>(classes)) {}

  // Adds one item or several. A negative label is ignored; a negative prediction matches no class
  // and counts as wrong. Throws Failure for an unknown class, and for sequences of unequal length.
  void add(std::int64_t predicted, std::int64_t label);
  void add(std::span<const std::int64_t> predicted, std::span<const std::int64_t> labels);

  const std::vector<RetrievalCounts>& classes() const { return classes_; }
  // In percent. Macro F1: the mean over classes that occur in labels or predictions, as
  // scikit-learn's f1_score(average="macro", zero_division=0). Micro F1: over all classes together,
  // equal to the accuracy where every item has a predicted class.
  double accuracy() const;
  double macro_f1() const;
  double micro_f1() const;

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    each_retrieval_sum(self.classes_, f);
  }

 private:
  std::vector<RetrievalCounts> classes_;
};

// Returns "accuracy", "macro_f1", "micro_f1", then "precision/NAME", "recall/NAME" and "f1/NAME" of
// each class. Throws Failure unless each class has a name.
std::vector<MetricValue> metric_values(const Classification& classification,
                                       const std::vector<std::string>& names);

}  // namespace longspan
