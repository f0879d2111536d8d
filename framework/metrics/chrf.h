// chrF (Popovic 2015) and chrF++ (Popovic 2017), as sacreBLEU counts them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

// The sums over the sentences of a corpus: n-grams of characters without white space, and for
// chrF++ of words, for each order.
class ChrfSums {
 public:
  static constexpr std::size_t letter_orders = 6;

  struct Order {
    std::int64_t hypothesis = 0;  // n-grams, of the sentences whose reference has any
    std::int64_t reference = 0;
    std::int64_t matches = 0;
  };

  // word_orders: 0 for chrF, 2 for chrF++. beta: how many times as much recall counts as precision.
  explicit ChrfSums(std::size_t word_orders = 0, double beta = 2)
      : orders_(letter_orders + word_orders), beta_(beta) {}

  // A sentence with its references, of which there is at least one; UTF-8. Of several references
  // the one with the highest score counts. Throws Failure without a reference.
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

// "chrf", or with words "chrf++".
std::vector<MetricValue> metric_values(const ChrfSums& sums);

}  // namespace longspan
