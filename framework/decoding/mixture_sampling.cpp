#include "framework/decoding/mixture_sampling.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/decoding/sampling.h"
#include "framework/kernels/logistic_mixture.h"
#include "framework/kernels/logistic_mixture_pixel.h"

namespace longspan {
namespace {

double intensity_of(std::int64_t value) { return logistics::intensity_of<double>(value); }

std::int64_t nearest_value(double place) {
  return static_cast<std::int64_t>(std::lround(255 * (std::clamp(place, -1.0, 1.0) + 1) / 2));
}

}  // namespace

void sample_logistic_mixture(std::span<const double> numbers,
                             std::int64_t mixtures,
                             double temperature,
                             const Random& place,
                             std::span<std::int64_t> values) {
  const std::int64_t channels = std::ssize(values);
  require(std::ssize(numbers) == mixture_parameters(mixtures, channels),
          "invalid mixture: {} parameters for {} channels",
          numbers.size(),
          channels);
  check_logits(numbers);
  const auto logits = numbers.first(static_cast<std::size_t>(mixtures));
  const std::int64_t k = sample_token(logits, {.temperature = temperature}, uniform_at(place, 0));
  const auto at = [&](std::int64_t channel, std::int64_t kind) {
    const std::int64_t kinds = channels == 1 ? 2 : 3;
    return numbers[static_cast<std::size_t>(mixtures * (1 + channel * kinds + kind) + k)];
  };
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    double mean = at(channel, 0);
    if (channel == 1) mean += std::tanh(at(0, 2)) * intensity_of(values[0]);
    if (channel == 2)
      mean += std::tanh(at(1, 2)) * intensity_of(values[0]) +
              std::tanh(at(2, 2)) * intensity_of(values[1]);
    const double scale = temperature * std::exp(std::max(at(channel, 1), logistics::min_log_scale));
    // Avoids log(0).
    const double u = std::max(uniform_at(place, static_cast<std::uint64_t>(1 + channel)), 0x1p-54);
    values[static_cast<std::size_t>(channel)] =
        nearest_value(mean + scale * (std::log(u) - std::log1p(-u)));
  }
}

}  // namespace longspan
