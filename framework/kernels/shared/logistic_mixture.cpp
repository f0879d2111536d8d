// Losses of discretized mixtures of logistic distributions.
#include "framework/kernels/logistic_mixture.h"

#include "framework/kernels/element.h"
#include "framework/kernels/logistic_mixture_pixel.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

// Cost of an exponential in elements of a simple loop, approximately, used to choose the number of
// threads.
constexpr std::int64_t cost_of_exponential = 8;

// One GPU thread for each pixel: a batch has enough positions.
template <typename T>
struct LossOfPixel {
  std::int64_t width, channels, mixtures;
  const T* parameters;
  const std::int64_t* values;
  Accumulator<T>* losses;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t r) const {
    losses[r] =
        values[r * channels] < 0
            ? Accumulator<T>{0}
            : logistics::Pixel<T>(parameters + r * width, values + r * channels, mixtures, channels)
                  .loss();
  }
};

template <typename T>
struct GradientOfPixel {
  std::int64_t width, channels, mixtures;
  const T* parameters;
  const std::int64_t* values;
  const Accumulator<T>* dlosses;
  T* dparameters;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t r) const {
    T* const to = dparameters + r * width;
    if (values[r * channels] < 0) {
      for (std::int64_t i = 0; i < width; ++i) put(to[i], Accumulator<T>{0});
      return;
    }
    logistics::Pixel<T>(parameters + r * width, values + r * channels, mixtures, channels)
        .gradient(dlosses[r], to);
  }
};

}  // namespace

void logistic_mixture(Backend backend, const LogisticMixture& mixture) {
  check(mixture);
  with_floating_type(mixture.parameters.dtype(), [&]<typename T>(TypeTag<T>) {
    parallel_rows(backend,
                  mixture.losses.elements(),
                  cost_of_exponential * mixture.parameters.shape().width(),
                  LossOfPixel<T>{mixture.parameters.shape().width(),
                                 mixture.values.shape().width(),
                                 mixture.mixtures,
                                 mixture.parameters.data<T>(),
                                 mixture.values.data<std::int64_t>(),
                                 mixture.losses.data<Accumulator<T>>()});
  });
}

void logistic_mixture_backward(Backend backend, const LogisticMixtureGradient& mixture) {
  check(mixture);
  with_floating_type(mixture.parameters.dtype(), [&]<typename T>(TypeTag<T>) {
    parallel_rows(backend,
                  mixture.dlosses.elements(),
                  2 * cost_of_exponential * mixture.parameters.shape().width(),
                  GradientOfPixel<T>{mixture.parameters.shape().width(),
                                     mixture.values.shape().width(),
                                     mixture.mixtures,
                                     mixture.parameters.data<T>(),
                                     mixture.values.data<std::int64_t>(),
                                     mixture.dlosses.data<Accumulator<T>>(),
                                     mixture.dparameters.data<T>()});
  });
}

}  // namespace longspan
