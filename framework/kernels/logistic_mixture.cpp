#include "framework/kernels/logistic_mixture.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

void require_mixture(const char* kernel,
                     const Tensor& parameters,
                     const Tensor& values,
                     std::int64_t mixtures) {
  const std::int64_t channels = values.shape().width();
  require(
      channels == 1 || channels == 3, "{}: expected 1 or 3 channels, found {}", kernel, channels);
  require(mixtures > 0, "{}: expected at least 1 mixture component, found {}", kernel, mixtures);
  const std::int64_t pixels = values.shape().rows();
  require_tensor(kernel, "values", values, {pixels, channels}, DType::i64);
  require_tensor(kernel,
                 "parameters",
                 parameters,
                 {pixels, mixture_parameters(mixtures, channels)},
                 parameters.dtype());
}

}  // namespace

void check(const LogisticMixture& mixture) {
  require_mixture("logistic_mixture", mixture.parameters, mixture.values, mixture.mixtures);
  require_tensor("logistic_mixture",
                 "losses",
                 mixture.losses,
                 {mixture.values.shape()[0]},
                 accumulator_of(mixture.parameters.dtype()));
}

void check(const LogisticMixtureGradient& mixture) {
  const char* const kernel = "logistic_mixture_backward";
  require_mixture(kernel, mixture.parameters, mixture.values, mixture.mixtures);
  const DType dtype = mixture.parameters.dtype();
  require_tensor(
      kernel, "dlosses", mixture.dlosses, {mixture.values.shape()[0]}, accumulator_of(dtype));
  require_tensor(kernel, "dparameters", mixture.dparameters, mixture.parameters.shape(), dtype);
}

}  // namespace longspan
