#include "framework/kernels/short_convolution.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

constexpr const char* convolution_kernel = "short convolution";

Shape output_shape(const ShortConvolution& call) {
  const Shape& x = call.x.shape();
  return x.with(1, x[1] - call.weight.shape()[1] + 1);
}

}  // namespace

void check(const ShortConvolution& call) {
  const Shape& x = call.x.shape();
  require(x.dimensions() == 3 && is_floating(call.x.dtype()) &&
              call.weight.shape().dimensions() == 2 && call.weight.shape()[1] >= 1 &&
              x[1] + 1 >= call.weight.shape()[1],
          "{}: expected x [batch, rows, channels] and weight [channels, taps], found {} and {}",
          convolution_kernel,
          x,
          call.weight.shape());
  require(call.later >= 0 && call.later < call.weight.shape()[1],
          "{}: expected 0 to {} later taps, found {}",
          convolution_kernel,
          call.weight.shape()[1] - 1,
          call.later);
  const DType sums = accumulator_of(call.x.dtype());
  require_tensor(convolution_kernel, "weight", call.weight, {x[2], call.weight.shape()[1]}, sums);
  if (call.bias.defined()) require_tensor(convolution_kernel, "bias", call.bias, {x[2]}, sums);
  const Shape y = output_shape(call);
  if (call.document_position.defined())
    require_tensor(
        convolution_kernel, "document_position", call.document_position, {y[0], y[1]}, DType::i64);
  if (call.y.defined()) require_tensor(convolution_kernel, "y", call.y, y, call.x.dtype());
}

void check(const ShortConvolutionGradient& call) {
  const ShortConvolution& forward = call.forward;
  check(forward);
  require_tensor(convolution_kernel, "dy", call.dy, output_shape(forward), forward.x.dtype());
  require_tensor(convolution_kernel, "dx", call.dx, forward.x.shape(), forward.x.dtype());
  const DType sums = forward.weight.dtype();
  require_tensor(convolution_kernel, "dweight", call.dweight, forward.weight.shape(), sums);
  if (call.dbias.defined())
    require_tensor(convolution_kernel, "dbias", call.dbias, forward.bias.shape(), sums);
}

}  // namespace longspan
