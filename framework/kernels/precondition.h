// Two-step updates: the first overwrites each gradient with an update direction. The second applies
// it, scaled by norms of the whole direction.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// LAMB's update direction (You et al. 2020, algorithm 2), with g = gradient_factor * gradient:
//   first = beta1 * first + (1 - beta1) * g;  second = beta2 * second + (1 - beta2) * g^2
//   gradient = m / (sqrt(v) + epsilon) + weight_decay * weight
// m and v are the moments, or with corrects_bias first / (1 - beta1^step) and second / (1 -
// beta2^step). Same dtype, f32 or f64, and length.
struct AdamPrecondition {
  Tensor weight;
  Tensor gradient;
  Tensor first;
  Tensor second;
  double gradient_factor = 1;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0;
  std::int64_t step = 1;
  bool corrects_bias = true;
};
void adam_precondition(Cpu, const AdamPrecondition&);
void adam_precondition(Cuda, const AdamPrecondition&);

// buffer = momentum * buffer + g; gradient = buffer, or g + momentum * buffer with nesterov.
struct MomentumStep {
  Tensor gradient;
  Tensor buffer;
  double gradient_factor = 1;
  double momentum = 0.95;
  bool nesterov = true;
};
void momentum_step(Cpu, const MomentumStep&);
void momentum_step(Cuda, const MomentumStep&);

// second = beta2 * second + (1 - beta2) * (g^2 + epsilon); gradient = g / sqrt(second).
struct RmsPrecondition {
  Tensor gradient;
  Tensor second;
  double gradient_factor = 1;
  double beta2 = 0;
  double epsilon = 1e-30;
};
void rms_precondition(Cpu, const RmsPrecondition&);
void rms_precondition(Cuda, const RmsPrecondition&);

// A range of the elements of matrices [matrices, rows, columns], starting at `first` in row-major
// order, f32 or f64. by_row [matrices * rows] and by_column [matrices * columns] are f64 and cover
// all matrices.
struct MatrixPart {
  Tensor elements;
  std::int64_t first = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  Tensor by_row;
  Tensor by_column;
};
// Adds (factor * element)^2 + epsilon to the element's entries of by_row and by_column.
void add_squares(Cpu, double factor, double epsilon, const MatrixPart&);
void add_squares(Cuda, double factor, double epsilon, const MatrixPart&);
// Multiplies each element by factor and by its entries of by_row and by_column.
void scale_lines(Cpu, double factor, const MatrixPart&);
void scale_lines(Cuda, double factor, const MatrixPart&);

// weight = keep * weight - rate * direction; compute, if defined, as in OptimizerRange.
struct ApplyUpdate {
  Tensor weight;
  Tensor direction;
  Tensor compute = {};
  double decay_factor = 1;
  double rate = 0;
};
void apply_update(Cpu, const ApplyUpdate&);
void apply_update(Cuda, const ApplyUpdate&);

// Throws Failure if dtypes or lengths do not match the comments above.
void check(const AdamPrecondition&);
void check(const MomentumStep&);
void check(const RmsPrecondition&);
void check(const char* kernel, const MatrixPart&);
void check(const ApplyUpdate&);

}  // namespace longspan
