// Power norm: features divided by the root of their mean square over all tokens (Shen et al. 2020).
//
// Rows are [rows, width] (leading axes flattened). What a feature or a row has is [width] or [rows]
// of the accumulator's dtype. Everything is written but where it says "added to".
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[r, c] = x[r, c] inverse[c] weight[c] + bias[c]. y: x's dtype or another floating one.
struct PowerNorm {
  Tensor x;
  Tensor inverse;
  Tensor weight;
  Tensor bias;
  Tensor y;
};
void power_norm(Cpu, const PowerNorm&);
void power_norm(Cuda, const PowerNorm&);

// dx[r, c] = inverse[c] (dy[r, c] weight[c] - counted[r] slope[c] x[r, c] inverse[c]). With the
// mean over the counted rows of dy weight x inverse as `slope` it is the gradient of a norm whose
// `inverse` is made of those rows' squares; without `slope` that of one whose inverse is a
// constant. dx: x's dtype; `add`: it is added to. dy: a floating dtype.
struct PowerNormGradient {
  Tensor x;
  Tensor inverse;
  Tensor weight;
  Tensor counted = {};  // goes with `slope`
  Tensor slope = {};
  Tensor dy;
  Tensor dx;
  bool add = false;
};
void power_norm_backward(Cpu, const PowerNormGradient&);
void power_norm_backward(Cuda, const PowerNormGradient&);

// sums[c] is added to: the sum over the rows of counted[r] a[r, c] b[r, c]; without `counted` all
// count. a, b: of floating dtypes that may differ; sums: of a's accumulator.
struct ProductSums {
  Tensor a;
  Tensor b;
  Tensor counted = {};
  Tensor sums;
};
void add_product_sums(Cpu, const ProductSums&);
void add_product_sums(Cuda, const ProductSums&);

// counted[b, t] for the rows t of [begin, end): 1 where position `position` + t - begin is before
// length[b], otherwise 0. counted: [batch, time]; length: [batch] i64; undefined: all are 1.
struct CountedRows {
  Tensor counted;
  Tensor length = {};
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t position = 0;
};
void count_rows(Cpu, const CountedRows&);
void count_rows(Cuda, const CountedRows&);

// inverse[c] = 1 / sqrt(squares[c] + epsilon).
void power_inverse(Cpu, const Tensor& squares, double epsilon, const Tensor& inverse);
void power_inverse(Cuda, const Tensor& squares, double epsilon, const Tensor& inverse);

// means[c] = sums[c] / count, or 1 where the count, one element, is 0, so that rows of nothing but
// padding stay as they are. means may be sums.
void power_mean(Cpu, const Tensor& sums, const Tensor& count, const Tensor& means);
void power_mean(Cuda, const Tensor& sums, const Tensor& count, const Tensor& means);

// The moving averages after a step in which `count` rows had squares and products (of the gradient
// and the normed rows, see PowerNormGradient) of these sums:
//   slope = slope (1 - (1 - decay) g) + (1 - decay) products / count
//   square = decay square + (1 - decay) squares / count
// with g, the mean square of the normed rows: squares / count over `square` as it was before, or,
// where rows were `divided_by_own` squares, over themselves. Nothing changes where count is 0.
struct PowerStatisticsUpdate {
  Tensor square;
  Tensor slope;
  Tensor squares;
  Tensor products;
  Tensor count;
  double decay = 0.9;
  double epsilon = 1e-5;
  bool divided_by_own = false;
};
void update_power_statistics(Cpu, const PowerStatisticsUpdate&);
void update_power_statistics(Cuda, const PowerStatisticsUpdate&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const PowerNorm&);
void check(const PowerNormGradient&);
void check(const ProductSums&);
void check(const CountedRows&);
void check(const PowerStatisticsUpdate&);

}  // namespace longspan
