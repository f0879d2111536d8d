// Likelihood of a corpus under a language model.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

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

}  // namespace longspan
