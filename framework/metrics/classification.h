// Accuracy, and precision, recall and F1 of each class, where an item has one class.
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

  // Of one item, or of several. A negative label does not count; a negative prediction is no class
  // and wrong. Throw Failure for a class that there is not, and for sequences of unequal length.
  void add(std::int64_t predicted, std::int64_t label);
  void add(std::span<const std::int64_t> predicted, std::span<const std::int64_t> labels);

  const std::vector<RetrievalCounts>& classes() const { return classes_; }
  // In percent. Macro F1: the mean over the classes that occur in labels or predictions, as
  // scikit-learn's f1_score(average="macro", zero_division=0). Micro F1: of all classes together,
  // which is the accuracy where every item is given a class.
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

// "accuracy", "macro_f1", "micro_f1", then "precision/NAME", "recall/NAME" and "f1/NAME" of each
// class. Throws Failure unless there is a name for each.
std::vector<MetricValue> metric_values(const Classification& classification,
                                       const std::vector<std::string>& names);

}  // namespace longspan
