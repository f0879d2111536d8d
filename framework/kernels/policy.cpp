#include "framework/kernels/policy.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

constexpr const char* policy_kernel = "policy_score";

void check_read(const PolicyLoss& score) {
  const Shape& shape = score.x.shape();
  const DType dtype = score.x.dtype();
  require(shape.dimensions() == 2 && shape[1] > 0 && accumulator_of(dtype) == dtype,
          "{}: expected x f32 or f64 [rows, width], found {} {}",
          policy_kernel,
          name_of(dtype),
          shape.to_string());
  const Shape rows = {shape[0]};
  require_tensor(policy_kernel, "action", score.action, rows, DType::i64);
  if (score.function == PolicyLossKind::clipped) {
    require_tensor(policy_kernel, "before", score.before, rows, dtype);
    require_tensor(policy_kernel, "advantage", score.advantage, rows, dtype);
  }
  if (score.function != PolicyLossKind::square) return;
  require(
      shape[1] == 1, "{}: expected values [rows, 1], found {}", policy_kernel, shape.to_string());
  require_tensor(policy_kernel, "wanted", score.wanted, rows, dtype);
}

}  // namespace

void check(const PolicyLoss& score) {
  check_read(score);
  require_tensor(policy_kernel, "y", score.y, {score.x.shape()[0]}, score.x.dtype());
}

void check(const PolicyScoreGradient& gradient) {
  const Tensor& x = gradient.forward.x;
  check_read(gradient.forward);
  require_tensor(policy_kernel, "dy", gradient.dy, {x.shape()[0]}, x.dtype());
  require_tensor(policy_kernel, "dx", gradient.dx, x.shape(), x.dtype());
}

}  // namespace longspan
