#include "framework/autograd/rotary.h"

namespace longspan {

Variable apply_rotary(Variable&& x, RotaryLayout pairs, const Tensor& table) {
  const Variable given = std::move(x);
  RotaryArguments turning = {.pairs = pairs, .x = given.value(), .table = table, .y = {}};
  // `given` and this call are owners.
  turning.y = given.value().has_use_count(2) ? given.value() : given.value().empty_like();
  on(table.device(), [&](auto backend) { apply_rotary(backend, turning); });
  return record(turning.y, {given}, [pairs, table](BackwardContext& gradients) {
    if (!gradients.needs_gradient(0)) return;
    const Tensor dx = gradients.release_output();
    const RotaryArguments back = {
        .pairs = pairs, .inverse = true, .x = dx, .table = table, .y = dx};
    on(table.device(), [&](auto backend) { apply_rotary(backend, back); });
    gradients.set(0, dx);
  });
}

}  // namespace longspan
