// How likely a language model finds a text.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

struct Likelihood {
  double nats = 0;          // the sum of the tokens' losses
  std::int64_t tokens = 0;  // that were predicted
  std::int64_t bytes = 0;   // of text of those tokens

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    f(self.nats);
    f(self.tokens);
    f(self.bytes);
  }
};

// "loss", "perplexity", "bits_per_byte"; not a number where nothing was predicted.
inline std::vector<MetricValue> metric_values(const Likelihood& likelihood) {
  const double loss = likelihood.nats / static_cast<double>(likelihood.tokens);
  const double bits = likelihood.nats / std::log(2.0);
  return {{"loss", loss, "nats a token"},
          {"perplexity", std::exp(loss), ""},
          {"bits_per_byte", bits / static_cast<double>(likelihood.bytes), "bits a byte"}};
}

}  // namespace longspan
