#include "framework/kernels/attention/shared/sinks.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void join_sinks(Cpu cpu, const Tensor& sink, const Tensor& out, const Tensor& log_sum_exp) {
  join_sinks_on(cpu, sink, out, log_sum_exp);
}

void sink_gradients(Cpu cpu, const SinkGradients& g) { sink_gradients_on(cpu, g); }

}  // namespace longspan
