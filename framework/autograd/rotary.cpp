#include "framework/autograd/rotary.h"

namespace longspan {

Variable turn(Variable&& x, RotaryPairs pairs, const Tensor& table) {
  const Variable given = std::move(x);
  Turning turning = {.pairs = pairs, .x = given.value(), .table = table, .y = {}};
  // The variable and this call are its holders.
  turning.y = given.value().held_by(2) ? given.value() : given.value().like();
  on(table.device(), [&](auto backend) { turn(backend, turning); });
  return record(turning.y, {given}, [pairs, table](Gradients& gradients) {
    if (!gradients.wanted(0)) return;
    const Tensor dx = gradients.take_output();
    const Turning back = {.pairs = pairs, .back = true, .x = dx, .table = table, .y = dx};
    on(table.device(), [&](auto backend) { turn(backend, back); });
    gradients.give(0, dx);
  });
}

}  // namespace longspan
