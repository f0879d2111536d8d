#include "framework/kernels/logistic_mixture.h"

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/logistic_mixture_pixel.h"

namespace longspan {
namespace {

// Cost of an exponential in elements of a simple loop, approximately, used to choose the number of
// threads.
constexpr std::int64_t cost_of_exponential = 8;

template <typename T>
void losses_of(const LogisticMixture& mixture) {
  const std::int64_t width = mixture.parameters.shape().width();
  const std::int64_t channels = mixture.values.shape().width();
  const T* parameters = mixture.parameters.data<T>();
  const std::int64_t* values = mixture.values.data<std::int64_t>();
  Accumulator<T>* losses = mixture.losses.data<Accumulator<T>>();
  for_rows(mixture.losses.elements(),
           cost_of_exponential * width,
           [=, mixtures = mixture.mixtures](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r)
               losses[r] =
                   values[r * channels] < 0
                       ? 0
                       : logistics::Pixel<T>(
                             parameters + r * width, values + r * channels, mixtures, channels)
                             .loss();
           });
}

template <typename T>
void gradient_of(const LogisticMixtureGradient& mixture) {
  const std::int64_t width = mixture.parameters.shape().width();
  const std::int64_t channels = mixture.values.shape().width();
  const T* parameters = mixture.parameters.data<T>();
  const std::int64_t* values = mixture.values.data<std::int64_t>();
  const Accumulator<T>* dlosses = mixture.dlosses.data<Accumulator<T>>();
  T* dparameters = mixture.dparameters.data<T>();
  for_rows(mixture.dlosses.elements(),
           2 * cost_of_exponential * width,
           [=, mixtures = mixture.mixtures](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               T* const to = dparameters + r * width;
               if (values[r * channels] < 0)
                 for (std::int64_t i = 0; i < width; ++i) put(to[i], Accumulator<T>{0});
               else
                 logistics::Pixel<T>(
                     parameters + r * width, values + r * channels, mixtures, channels)
                     .gradient(dlosses[r], to);
             }
           });
}

}  // namespace

void logistic_mixture(Cpu, const LogisticMixture& mixture) {
  check(mixture);
  with_floating_type(mixture.parameters.dtype(),
                     [&](auto tag) { losses_of<typename decltype(tag)::type>(mixture); });
}

void logistic_mixture_backward(Cpu, const LogisticMixtureGradient& mixture) {
  check(mixture);
  with_floating_type(mixture.parameters.dtype(),
                     [&](auto tag) { gradient_of<typename decltype(tag)::type>(mixture); });
}

}  // namespace longspan
