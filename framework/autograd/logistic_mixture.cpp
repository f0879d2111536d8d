#include "framework/autograd/logistic_mixture.h"

#include "framework/autograd/dtypes.h"
#include "framework/kernels/logistic_mixture.h"

namespace longspan {

Variable logistic_mixture_losses(const Variable& parameters,
                                 const Tensor& values,
                                 std::int64_t mixtures) {
  const Shape& shape = parameters.shape();
  const Tensor numbers = parameters.value().reshape({shape.rows(), shape.width()});
  const Tensor pixels = values.reshape({shape.rows(), values.shape().width()});
  const Tensor losses = empty_accumulator(numbers, {shape.rows()});
  on(numbers.device(), [&](auto backend) {
    logistic_mixture(
        backend, {.parameters = numbers, .values = pixels, .mixtures = mixtures, .losses = losses});
  });
  return record(
      losses, {parameters}, [numbers, pixels, mixtures, shape](BackwardContext& gradients) {
        const Tensor dparameters = numbers.empty_like();
        on(numbers.device(), [&](auto backend) {
          logistic_mixture_backward(backend,
                                    {.parameters = numbers,
                                     .values = pixels,
                                     .mixtures = mixtures,
                                     .dlosses = gradients.output(),
                                     .dparameters = dparameters});
        });
        gradients.set(0, dparameters.reshape(shape));
      });
}

}  // namespace longspan
