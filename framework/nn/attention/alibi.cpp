#include "framework/nn/attention/alibi.h"

#include <bit>
#include <cmath>

#include "framework/core/async_copy.h"

namespace longspan {

std::vector<double> alibi_slopes(std::int64_t heads) {
  require(heads > 0, "alibi: expected at least 1 head, found {}", heads);
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto slope = [](double i, double of) { return std::exp2(-8 * i / of); };
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i)
    slopes.push_back(slope(static_cast<double>(i), static_cast<double>(power)));
  for (std::int64_t i = 1; std::ssize(slopes) < heads; i += 2)
    slopes.push_back(slope(static_cast<double>(i), 2 * static_cast<double>(power)));
  return slopes;
}

Tensor alibi_slopes(const Scope& scope, std::int64_t heads) {
  const ShardRange part = scope.part(heads);
  const Parameters& parameters = scope.parameters();
  const std::vector<double> all = alibi_slopes(heads);
  const std::vector<double> own(all.begin() + part.begin, all.begin() + part.begin + part.count);
  const Device host = parameters.device().host();
  if (accumulator_of(parameters.compute_dtype()) == DType::f64)
    return copy_async(Tensor::from<double>(own, {part.count}, host), parameters.device());
  return copy_async(
      Tensor::from<float>(std::vector<float>(own.begin(), own.end()), {part.count}, host),
      parameters.device());
}

}  // namespace longspan
