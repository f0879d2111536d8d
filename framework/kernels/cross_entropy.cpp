#include "framework/kernels/cross_entropy.h"

#include <initializer_list>

namespace longspan {
namespace {

// Checks shared by both kernels; the vectors are [rows] in the accumulator dtype.
void require_logits(const char* kernel,
                    const Tensor& logits,
                    const Tensor& targets,
                    std::int64_t valid_width,
                    std::initializer_list<const Tensor*> vectors) {
  const std::int64_t rows = logits.shape().rows();
  require(0 <= valid_width && valid_width <= logits.shape().width(),
          "{}: valid_width {} is out of range for logits {}",
          kernel,
          valid_width,
          logits.shape().to_string());
  require(targets.dtype() == DType::i64 && targets.elements() == rows,
          "{}: expected {} i64 targets, found {} {}",
          kernel,
          rows,
          name_of(targets.dtype()),
          targets.shape().to_string());
  for (const Tensor* vector : vectors)
    require(vector->elements() == rows && vector->dtype() == accumulator_of(logits.dtype()),
            "{}: expected statistics of {} elements of {}, found {} {}",
            kernel,
            rows,
            name_of(accumulator_of(logits.dtype())),
            name_of(vector->dtype()),
            vector->shape().to_string());
}

}  // namespace

void check(const CrossEntropyStatistics& entropy) {
  const Tensor& total = entropy.total.defined() ? entropy.total : entropy.sum;
  require_logits("cross_entropy_statistics",
                 entropy.logits,
                 entropy.targets,
                 entropy.valid_width,
                 {&entropy.maximum, &entropy.sum, &entropy.target, &total});
}

void check(const CrossEntropyLosses& rows) {
  require(rows.targets.dtype() == DType::i64 && is_floating(rows.sum.dtype()) &&
              accumulator_of(rows.sum.dtype()) == rows.sum.dtype(),
          "cross_entropy_losses: expected i64 targets and f32 or f64 statistics, found {} and {}",
          name_of(rows.targets.dtype()),
          name_of(rows.sum.dtype()));
  require(rows.total.defined() || rows.off_target == 0,
          "cross_entropy_losses: off_target {} requires the sums of the logits",
          rows.off_target);
  const Tensor& total = rows.total.defined() ? rows.total : rows.sum;
  for (const Tensor* vector :
       {&rows.maximum, &rows.target, &total, &rows.log_sum_exp, &rows.losses})
    require(vector->elements() == rows.targets.elements() && vector->dtype() == rows.sum.dtype(),
            "cross_entropy_losses: expected statistics of {} elements of {}, found {} {}",
            rows.targets.elements(),
            name_of(rows.sum.dtype()),
            name_of(vector->dtype()),
            vector->shape().to_string());
}

void check(const CrossEntropyGradient& entropy) {
  require_logits("cross_entropy_backward",
                 entropy.logits,
                 entropy.targets,
                 entropy.valid_width,
                 {&entropy.log_sum_exp, &entropy.scale});
}

}  // namespace longspan
