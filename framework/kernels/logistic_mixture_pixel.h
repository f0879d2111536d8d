// Loss and gradient of one pixel under a discretized mixture of logistics, shared by the CPU and
// CUDA kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "framework/core/host_device.h"
#include "framework/kernels/element.h"
#include "framework/kernels/vector_math.h"

namespace longspan::logistics {

inline constexpr double min_log_scale = -7;

// Intensity in [-1, 1] that a value represents.
template <typename A>
LONGSPAN_HOST_DEVICE A intensity_of(std::int64_t value) {
  return static_cast<A>(2 * value) / A{255} - A{1};
}

// The log-probability of a value under one logistic, with its derivatives.
template <typename A>
struct Bin {
  A log_probability;
  A by_mean;
  A by_log_scale;
};

template <typename A>
LONGSPAN_HOST_DEVICE Bin<A> bin_of(std::int64_t value, A mean, A log_scale) {
  const A inverse = std::exp(-log_scale);
  const A centered = intensity_of<A>(value) - mean;
  const A upper = inverse * (centered + A{1} / A{255});
  const A lower = inverse * (centered - A{1} / A{255});
  // ln s(upper) and ln (1 - s(lower)). Each is absent at its end of the range.
  Bin<A> bin = {0, 0, 0};
  if (value < 255) {
    const A beyond = sigmoid(-upper);
    bin.log_probability -= softplus(-upper);
    bin.by_mean -= inverse * beyond;
    bin.by_log_scale -= upper * beyond;
  }
  if (value > 0) {
    const A below = sigmoid(lower);
    bin.log_probability -= softplus(lower);
    bin.by_mean += inverse * below;
    bin.by_log_scale += lower * below;
  }
  if (value == 0 || value == 255) return bin;
  // s(upper) - s(lower) = s(upper) (1 - s(lower)) (1 - e^-width).
  const A width = A{2} * inverse / A{255};
  if (A{1000} * width < A{1}) {
    bin.log_probability +=
        std::log(A{2} / A{255}) - log_scale - width / A{2} + width * width / A{24};
    bin.by_log_scale -= A{1} - width / A{2} + width * width / A{12};
  } else {
    bin.log_probability += std::log(-std::expm1(-width));
    bin.by_log_scale -= width < A{80} ? width / std::expm1(width) : A{0};
  }
  return bin;
}

// Pointers to the parameters of one pixel.
template <typename T>
class Pixel {
 public:
  using A = Accumulator<T>;

  LONGSPAN_HOST_DEVICE Pixel(const T* parameters,
                             const std::int64_t* values,
                             std::int64_t mixtures,
                             std::int64_t channels)
      : parameters_(parameters), values_(values), mixtures_(mixtures), channels_(channels) {}

  // ln sum exp over the mixtures: of the logits, and of the logits plus log-probabilities.
  struct Sums {
    A logits;
    A joint;
  };
  LONGSPAN_HOST_DEVICE Sums sums() const {
    Running logits, joint;
    for (std::int64_t k = 0; k < mixtures_; ++k) {
      const A logit = at(k);
      logits.add(logit);
      joint.add(logit + log_probability(k));
    }
    return {logits.log(), joint.log()};
  }
  LONGSPAN_HOST_DEVICE A loss() const {
    const Sums found = sums();
    return found.logits - found.joint;
  }

  LONGSPAN_HOST_DEVICE void gradient(A dloss, T* to) const {
    const Sums found = sums();
    for (std::int64_t k = 0; k < mixtures_; ++k) {
      const A logit = at(k);
      const A share = std::exp(logit + log_probability(k) - found.joint);
      put(to[k], dloss * (std::exp(logit - found.logits) - share));
      A by_coefficient[3] = {0, 0, 0};
      for (std::int64_t channel = 0; channel < channels_; ++channel) {
        const Bin<A> bin = bin_of_channel(channel, k);
        const A by_mean = -dloss * share * bin.by_mean;
        const bool is_held = at(place(channel, 1, k)) < A{min_log_scale};
        put(to[place(channel, 0, k)], by_mean);
        put(to[place(channel, 1, k)], is_held ? A{0} : -dloss * share * bin.by_log_scale);
        if (channel == 1) by_coefficient[0] = by_mean * seen(0);
        if (channel == 2) by_coefficient[1] = by_mean * seen(0);
        if (channel == 2) by_coefficient[2] = by_mean * seen(1);
      }
      if (channels_ < 3) continue;
      for (std::int64_t slot = 0; slot < 3; ++slot) {
        const A c = coefficient(slot, k);
        put(to[place(slot, 2, k)], by_coefficient[slot] * (A{1} - c * c));
      }
    }
  }

 private:
  struct Running {
    A largest = -std::numeric_limits<A>::infinity();
    A sum = 0;
    LONGSPAN_HOST_DEVICE void add(A x) {
      if (x > largest) {
        sum = sum * std::exp(largest - x) + A{1};
        largest = x;
      } else {
        sum += std::exp(x - largest);
      }
    }
    LONGSPAN_HOST_DEVICE A log() const { return largest + std::log(sum); }
  };

  LONGSPAN_HOST_DEVICE A at(std::int64_t place) const { return static_cast<A>(parameters_[place]); }
  LONGSPAN_HOST_DEVICE std::int64_t place(std::int64_t channel,
                                          std::int64_t kind,
                                          std::int64_t k) const {
    const std::int64_t kinds = channels_ == 1 ? 2 : 3;
    return mixtures_ * (1 + channel * kinds + kind) + k;
  }
  LONGSPAN_HOST_DEVICE A coefficient(std::int64_t slot, std::int64_t k) const {
    return std::tanh(at(place(slot, 2, k)));
  }
  LONGSPAN_HOST_DEVICE A seen(std::int64_t channel) const {
    return intensity_of<A>(values_[channel]);
  }
  LONGSPAN_HOST_DEVICE Bin<A> bin_of_channel(std::int64_t channel, std::int64_t k) const {
    A mean = at(place(channel, 0, k));
    if (channel == 1) mean += coefficient(0, k) * seen(0);
    if (channel == 2) mean += coefficient(1, k) * seen(0) + coefficient(2, k) * seen(1);
    const A log_scale = at(place(channel, 1, k));
    return bin_of(
        values_[channel], mean, log_scale < A{min_log_scale} ? A{min_log_scale} : log_scale);
  }
  LONGSPAN_HOST_DEVICE A log_probability(std::int64_t k) const {
    A sum = 0;
    for (std::int64_t channel = 0; channel < channels_; ++channel)
      sum += bin_of_channel(channel, k).log_probability;
    return sum;
  }

  const T* parameters_;
  const std::int64_t* values_;
  std::int64_t mixtures_;
  std::int64_t channels_;
};

}  // namespace longspan::logistics
