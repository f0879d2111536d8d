// The final value of a metric.
#pragma once

#include <string>
#include <vector>

namespace longspan {

struct MetricValue {
  std::string name;  // "bleu", "word_error_rate", "f1/PERSON"
  double value = 0;
  std::string unit = {};  // "percent", "tokens", "bits per byte", ...; empty: dimensionless
  bool is_count = false;  // an integer

  friend bool operator==(const MetricValue&, const MetricValue&) = default;
};

// Returns 100 * part / whole; 0 where `whole` is 0.
inline double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace longspan
