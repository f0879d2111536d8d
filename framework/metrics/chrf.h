// chrF (Popovic 2015) and chrF++ (Popovic 2017), as in sacreBLEU.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

// Sums over the sentences of a corpus for each order: n-grams of non-space characters, and for
// chrF++ of words.
class ChrfSums {
 public:
  static constexpr std::size_t letter_orders = 6;

  struct Order {
    std::int64_t hypothesis = 0;  // n-grams of sentences whose reference has any
    std::int64_t reference = 0;
    std::int64_t matches = 0;
  };

  // word_orders: 0 for chrF, 2 for chrF++. beta: weight of recall relative to precision.
  explicit ChrfSums(std::size_t word_orders = 0, double beta = 2)
      : orders_(letter_orders + word_orders), beta_(beta) {}

  // Adds a UTF-8 sentence with its references; the reference with the highest score counts. Throws
  // Failure without a reference.
  void add(std::string_view hypothesis, std::span<const std::string> references);

  double score() const;  // 0 .. 100
  std::size_t word_orders() const { return orders_.size() - letter_orders; }
  double beta() const { return beta_; }

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    for (auto& order : self.orders_) {
      f(order.hypothesis);
      f(order.reference);
      f(order.matches);
    }
  }

 private:
  std::vector<Order> orders_;
  double beta_;
};

// Returns "chrf", or with words "chrf++".
std::vector<MetricValue> metric_values(const ChrfSums& sums);

}  // namespace longspan
