// What a metric says in the end.
#pragma once

#include <string>
#include <vector>

namespace longspan {

struct MetricValue {
  std::string name;  // "bleu", "word_error_rate", "f1/PERSON"
  double value = 0;
  std::string unit = {};  // "percent", "tokens", "bits a byte", ...; empty for a plain number
  bool is_count = false;  // a whole number

  friend bool operator==(const MetricValue&, const MetricValue&) = default;
};

// 100 * part / whole; 0 where there is nothing.
inline double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace longspan
