#include "framework/kernels/attention/shared/sinks.h"
#include "framework/kernels/cuda/launch.h"

namespace longspan {

void join_sinks(Cuda cuda, const Tensor& sink, const Tensor& out, const Tensor& log_sum_exp) {
  join_sinks_on(cuda, sink, out, log_sum_exp);
}

void sink_gradients(Cuda cuda, const SinkGradients& g) { sink_gradients_on(cuda, g); }

}  // namespace longspan
