#include "framework/kernels/pointer_generator.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

// Returns the shape [batch, time, positions] of an f32 or f64 tensor.
const Shape& shape_of(const char* kernel, const Tensor& attention) {
  require(attention.defined() && attention.shape().dimensions() == 3 &&
              is_floating(attention.dtype()) &&
              accumulator_of(attention.dtype()) == attention.dtype(),
          "{}: expected attention f32 or f64 [batch, time, positions], found {} {}",
          kernel,
          name_of(attention.dtype()),
          attention.shape().to_string());
  return attention.shape();
}

Shape rows_of(const Shape& attention) { return {attention[0], attention[1]}; }

}  // namespace

void check(const CopyProbability& call) {
  const Shape shape = shape_of("copy probabilities", call.attention);
  require_tensor("copy probabilities", "source", call.source, {shape[0], shape[2]}, DType::i64);
  require_tensor("copy probabilities", "targets", call.targets, rows_of(shape), DType::i64);
  require_tensor(
      "copy probabilities", "copied", call.copied, rows_of(shape), call.attention.dtype());
}

void check(const CopiedMassGradient& call) {
  const Shape shape = shape_of("copy probabilities", call.dattention);
  require_tensor("copy probabilities", "source", call.source, {shape[0], shape[2]}, DType::i64);
  require_tensor("copy probabilities", "targets", call.targets, rows_of(shape), DType::i64);
  require_tensor(
      "copy probabilities", "dcopied", call.dcopied, rows_of(shape), call.dattention.dtype());
}

void check(const PointerGeneratorLosses& call) {
  const DType dtype = call.losses.dtype();
  const std::int64_t rows = call.losses.elements();
  require(is_floating(dtype) && accumulator_of(dtype) == dtype,
          "copy losses: expected f32 or f64 losses, found {}",
          name_of(dtype));
  const auto check_row = [&](const char* name, const Tensor& x, DType wanted) {
    require(x.defined() && x.elements() == rows && x.dtype() == wanted,
            "copy losses: expected {} of {} elements of {}, found {} {}",
            name,
            rows,
            name_of(wanted),
            x.defined() ? name_of(x.dtype()) : "nothing",
            x.defined() ? x.shape().to_string() : "");
  };
  check_row("generated", call.generated, dtype);
  check_row("gate", call.gate, dtype);
  check_row("copied", call.copied, dtype);
  check_row("targets", call.targets, DType::i64);
}

void check(const CopyLossesGradient& call) {
  check(call.forward);
  for (const Tensor* x : {&call.dlosses, &call.dgenerated, &call.dgate, &call.dcopied})
    require_tensor("copy losses",
                   "a gradient",
                   x->reshape({x->elements()}),
                   {call.forward.losses.elements()},
                   call.forward.losses.dtype());
}

void check(const CoverageLosses& call) {
  const Shape shape = shape_of("coverage losses", call.attention);
  const DType dtype = call.attention.dtype();
  require_tensor("coverage losses", "targets", call.targets, rows_of(shape), DType::i64);
  require_tensor("coverage losses", "coverage", call.coverage, shape, dtype);
  require_tensor("coverage losses", "losses", call.losses, rows_of(shape), dtype);
}

void check(const CoverageLossesGradient& call) {
  check(call.forward);
  const DType dtype = call.forward.attention.dtype();
  require_tensor("coverage losses", "dlosses", call.dlosses, call.forward.losses.shape(), dtype);
  require_tensor(
      "coverage losses", "dattention", call.dattention, call.forward.attention.shape(), dtype);
}

void check(const GuidedAttentionLosses& call) {
  const Shape shape = shape_of("guided attention losses", call.attention);
  const DType dtype = call.attention.dtype();
  require_tensor("guided attention losses", "guide", call.guide, shape, dtype);
  require_tensor("guided attention losses", "losses", call.losses, rows_of(shape), dtype);
}

void check(const GuideLossesGradient& call) {
  const Shape shape = shape_of("guided attention losses", call.forward.attention);
  const DType dtype = call.forward.attention.dtype();
  require_tensor("guided attention losses", "guide", call.forward.guide, shape, dtype);
  require_tensor("guided attention losses", "dlosses", call.dlosses, rows_of(shape), dtype);
  require_tensor("guided attention losses", "dattention", call.dattention, shape, dtype);
}

}  // namespace longspan
