#include "framework/metrics/classification.h"

#include "framework/core/error.h"

namespace longspan {

void Classification::add(std::int64_t predicted, std::int64_t label) {
  const std::int64_t count = std::ssize(classes_);
  require(predicted < count && label < count,
          "classification: predicted class {} or label {} is out of range ({} classes)",
          predicted,
          label,
          count);
  if (label < 0) return;
  RetrievalCounts& right = classes_[static_cast<std::size_t>(label)];
  ++right.reference;
  right.right += predicted == label ? 1 : 0;
  if (predicted >= 0) ++classes_[static_cast<std::size_t>(predicted)].predicted;
}

void Classification::add(std::span<const std::int64_t> predicted,
                         std::span<const std::int64_t> labels) {
  require(predicted.size() == labels.size(),
          "classification: expected as many predictions as labels, found {} and {}",
          predicted.size(),
          labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) add(predicted[i], labels[i]);
}

double Classification::accuracy() const { return total_of(classes_).recall(); }

double Classification::macro_f1() const {
  double sum = 0, present = 0;
  for (const RetrievalCounts& one : classes_) {
    if (one.reference == 0 && one.predicted == 0) continue;
    sum += one.f1();
    ++present;
  }
  return present > 0 ? sum / present : 0;
}

double Classification::micro_f1() const { return total_of(classes_).f1(); }

std::vector<MetricValue> metric_values(const Classification& classification,
                                       const std::vector<std::string>& names) {
  require(names.size() == classification.classes().size(),
          "classification: expected as many names as classes, found {} and {}",
          names.size(),
          classification.classes().size());
  std::vector<MetricValue> result = {{"accuracy", classification.accuracy(), "percent"},
                                     {"macro_f1", classification.macro_f1(), "percent"},
                                     {"micro_f1", classification.micro_f1(), "percent"}};
  append_figures(classification.classes(), names, result);
  return result;
}

}  // namespace longspan
