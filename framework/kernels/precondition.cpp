#include "framework/kernels/precondition.h"

#include "framework/kernels/shared/optimizer.h"

namespace longspan {

void check(const AdamPrecondition& step) {
  constexpr const char* kernel = "adam_direction";
  require_wide(kernel, step.weight);
  require_like_weight(kernel, "gradient", step.gradient, step.weight);
  require_like_weight(kernel, "first", step.first, step.weight);
  require_like_weight(kernel, "second", step.second, step.weight);
  require(step.step >= 1, "{}: expected step of at least 1, found {}", kernel, step.step);
}

void check(const MomentumStep& step) {
  require_wide("momentum_step", step.gradient);
  require_like_weight("momentum_step", "buffer", step.buffer, step.gradient);
}

void check(const RmsPrecondition& step) {
  require_wide("root_direction", step.gradient);
  require_like_weight("root_direction", "second", step.second, step.gradient);
}

void check(const char* kernel, const MatrixPart& part) {
  require_wide(kernel, part.elements);
  require(part.rows >= 1 && part.columns >= 1 && part.first >= 0,
          "{}: invalid matrices of {} x {} from element {}",
          kernel,
          part.rows,
          part.columns,
          part.first);
  for (const Tensor& numbers : {part.by_row, part.by_column})
    require(numbers.defined() && numbers.dtype() == DType::f64,
            "{}: expected f64 row and column sums",
            kernel);
  const std::int64_t matrices = part.by_row.elements() / part.rows;
  require(part.by_row.elements() == matrices * part.rows &&
              part.by_column.elements() == matrices * part.columns,
          "{}: expected the sums of whole matrices of {} x {}, found {} rows and {} columns",
          kernel,
          part.rows,
          part.columns,
          part.by_row.elements(),
          part.by_column.elements());
  require(part.first + part.elements.elements() <= matrices * part.rows * part.columns,
          "{}: elements {} to {} are out of range for {} matrices of {} x {}",
          kernel,
          part.first,
          part.first + part.elements.elements(),
          matrices,
          part.rows,
          part.columns);
}

void check(const ApplyUpdate& update) {
  check("directed_update",
        OptimizerRange{
            .weight = update.weight, .gradient = update.direction, .compute = update.compute});
}

}  // namespace longspan
