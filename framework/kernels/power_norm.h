// PowerNorm: divides features by the root of their mean square over all tokens (Shen et al. 2020).
//
// Rows are [rows, width] (leading axes flattened). Per-feature and per-row tensors are [width] or
// [rows] in the accumulator dtype. Outputs are overwritten unless described as accumulated.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[r, c] = x[r, c] inverse[c] weight[c] + bias[c]. y: x's dtype or another floating dtype.
struct PowerNorm {
  Tensor x;
  Tensor inverse;
  Tensor weight;
  Tensor bias;
  Tensor y;
};
void power_norm(Cpu, const PowerNorm&);
void power_norm(Cuda, const PowerNorm&);

// dx[r, c] = inverse[c] (dy[r, c] weight[c] - counted[r] slope[c] x[r, c] inverse[c]). If `slope`
// is the mean over the counted rows of dy weight x inverse, this differentiates through `inverse`
// as computed from those rows. Without `slope`, inverse is treated as a constant. dx: x's dtype,
// accumulated if `add`. dy: a floating dtype.
struct PowerNormGradient {
  Tensor x;
  Tensor inverse;
  Tensor weight;
  Tensor counted = {};  // only with `slope`
  Tensor slope = {};
  Tensor dy;
  Tensor dx;
  bool add = false;
};
void power_norm_backward(Cpu, const PowerNormGradient&);
void power_norm_backward(Cuda, const PowerNormGradient&);

// sums[c] += the sum over the rows of counted[r] a[r, c] b[r, c]; without `counted` all rows count.
// a, b: floating dtypes that may differ; sums: a's accumulator dtype.
struct ProductSums {
  Tensor a;
  Tensor b;
  Tensor counted = {};
  Tensor sums;
};
void add_product_sums(Cpu, const ProductSums&);
void add_product_sums(Cuda, const ProductSums&);

// counted[b, t] for the rows t of [begin, end): 1 if `position` + t - begin < length[b], otherwise
// 0. counted: [batch, time]; length: [batch] i64; undefined: all are 1.
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

// means[c] = sums[c] / count. If the one-element count is 0, means[c] is 1, so that rows of padding
// alone are unchanged. means may alias sums.
void power_mean(Cpu, const Tensor& sums, const Tensor& count, const Tensor& means);
void power_mean(Cuda, const Tensor& sums, const Tensor& count, const Tensor& means);

// Moving averages after a step in which `count` rows had these sums of squares and products. The
// products are those of the gradient and the normalized rows, see PowerNormGradient.
//   slope = slope (1 - (1 - decay) g) + (1 - decay) products / count
//   square = decay square + (1 - decay) squares / count
// g is the mean square of the normalized rows: squares / count over the previous `square`, or with
// `divided_by_batch`, whose rows are divided by the squares of their own batch, over itself.
// Nothing changes if count is 0.
struct PowerStatisticsUpdate {
  Tensor square;
  Tensor slope;
  Tensor squares;
  Tensor products;
  Tensor count;
  double decay = 0.9;
  double epsilon = 1e-5;
  bool divided_by_batch = false;
};
void update_power_statistics(Cpu, const PowerStatisticsUpdate&);
void update_power_statistics(Cuda, const PowerStatisticsUpdate&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const PowerNorm&);
void check(const PowerNormGradient&);
void check(const ProductSums&);
void check(const CountedRows&);
void check(const PowerStatisticsUpdate&);

}  // namespace longspan
