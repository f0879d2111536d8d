// Element-wise operations, copies of time blocks, and reductions.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// out = a + b. Same number of elements and dtype. out may alias a or b.
void add(Cpu, const Tensor& a, const Tensor& b, const Tensor& out);
void add(Cuda, const Tensor& a, const Tensor& b, const Tensor& out);

// y += factor * x. x may have another floating dtype; the sum is computed in the wider accumulator.
void accumulate(Cpu, double factor, const Tensor& x, const Tensor& y);
void accumulate(Cuda, double factor, const Tensor& x, const Tensor& y);

// y = factor * x. x and y may have different floating dtypes, so this is also the cast.
void scale(Cpu, double factor, const Tensor& x, const Tensor& y);
void scale(Cuda, double factor, const Tensor& x, const Tensor& y);

// y = factor * one in every element; `one` has one element. Their floating dtypes may differ.
void fill(Cpu, double factor, const Tensor& one, const Tensor& y);
void fill(Cuda, double factor, const Tensor& one, const Tensor& y);

// y[o, t, :] = factor * x[o, t, :] + table[t, :]. x, y: [outer, time, width]; table: [time, width],
// in x's dtype or its accumulator dtype. y may alias x.
void scale_and_add_rows(Cpu, double factor, const Tensor& x, const Tensor& table, const Tensor& y);
void scale_and_add_rows(Cuda, double factor, const Tensor& x, const Tensor& table, const Tensor& y);

// Copies or adds a block of `count` middle rows: to[o, to_begin + t, :] = from[o, from_begin + t,
// :]. from: [outer, n, width], to: [outer, m, width], same dtype.
void copy_rows(Cpu,
               const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count,
               bool add);
void copy_rows(Cuda,
               const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count,
               bool add);

// out[c] += sum over rows of x[r, c]. x: [rows, width]; out: [width], in x's dtype or its
// accumulator dtype. Deterministic for a given number of threads.
void add_column_sums(Cpu, const Tensor& x, const Tensor& out);
void add_column_sums(Cuda, const Tensor& x, const Tensor& out);

// total = factor times the sum of the elements, and the sum of squares over several tensors. total:
// one f32 or f64 element; sums are computed in double. Deterministic for any number of threads
// (fixed blocks). NaN and infinity propagate.
void sum(Cpu, const Tensor& x, double factor, const Tensor& total);
void sum(Cuda, const Tensor& x, double factor, const Tensor& total);
void sum_of_squares(Cpu, const std::vector<Tensor>& tensors, const Tensor& total);
void sum_of_squares(Cuda, const std::vector<Tensor>& tensors, const Tensor& total);

}  // namespace longspan
