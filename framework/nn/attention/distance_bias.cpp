#include "framework/nn/attention/distance_bias.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/core/queued_copy.h"

namespace longspan {
namespace {

Tensor choice(const Scope& stack, const DistanceBias::Options& options) {
  const std::int64_t distances = 2 * options.reach + 1;
  std::vector<float> rows(static_cast<std::size_t>(distances * options.buckets), 0.0F);
  for (std::int64_t d = 0; d < distances; ++d)
    rows[static_cast<std::size_t>(d * options.buckets +
                                  distance_bucket(d - options.reach, options))] = 1;
  const Parameters& parameters = stack.parameters();
  const Device host = parameters.device().host();
  const Tensor one = Tensor::from<float>(rows, {distances, options.buckets}, host);
  return queued_to(one, parameters.device());
}

}  // namespace

std::int64_t distance_bucket(std::int64_t distance, const DistanceBias::Options& options) {
  std::int64_t buckets = options.buckets;
  std::int64_t first = 0;
  std::int64_t steps = -distance;
  if (options.causal) {
    steps = std::max<std::int64_t>(steps, 0);
  } else {
    buckets /= 2;
    if (distance > 0) first = buckets;
    steps = std::abs(distance);
  }
  const std::int64_t exact = buckets / 2;
  if (steps < exact) return first + steps;
  const double part = std::log(static_cast<double>(steps) / static_cast<double>(exact)) /
                      std::log(static_cast<double>(options.reach) / static_cast<double>(exact));
  const auto beyond = static_cast<std::int64_t>(part * static_cast<double>(buckets - exact));
  return first + std::min(exact + beyond, buckets - 1);
}

DistanceBias::DistanceBias(const Scope& stack, const Options& options)
    : table_(
          stack.undecayed("relative_bias", {options.heads, options.buckets}, options.initial, 0)),
      choice_(choice(stack, options)) {}

Variable DistanceBias::term() const { return linear(table_->variable, choice_, Variable()); }

}  // namespace longspan
