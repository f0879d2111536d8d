// LSH attention with shared queries and keys (lucidrains/reformer-pytorch).
#include <gtest/gtest.h>

#include "framework/autograd/attention.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/hash_buckets.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

// The reference numbers the buckets of round r from r * count, [batch, rounds * time].
Tensor numbered_as_reference(const Tensor& buckets, std::int64_t count) {
  const Tensor result = Tensor::empty(buckets.shape(), DType::i64, buckets.device());
  const std::int64_t rounds = buckets.shape()[2], time = buckets.shape()[3];
  for (std::int64_t i = 0; i < buckets.elements(); ++i)
    result.data<std::int64_t>()[i] = buckets.data<std::int32_t>()[i] + i / time % rounds * count;
  return result;
}

Tensor buckets_of(const GoldenFile& file, const Tensor& x, LshAttentionOptions& options) {
  const Tensor& rotations = file.numbers("inputs/rotations");
  const std::int64_t rounds = file.integer("n_hashes");
  options.buckets = 2 * rotations.shape()[3];
  const Tensor buckets =
      Tensor::empty({x.shape()[0], 1, rounds, x.shape()[1]}, DType::i32, x.device());
  on(x.device(), [&](auto backend) {
    hash_buckets(
        backend,
        {.x = x, .rotations = rotations, .count = {.first = options.buckets}, .buckets = buckets});
  });
  const Tensor found = numbered_as_reference(buckets, options.buckets);
  const Tensor& expected = file.ids("outputs/buckets");
  EXPECT_TRUE(found.elements() == expected.elements() &&
              std::memcmp(found.bytes(), expected.bytes(), expected.byte_size()) == 0)
      << file.name() << ": other buckets than the reference's";
  return buckets;
}

// Outputs of the reference at padding, where the library has 0. LSH: the token's own value. Full:
// the mean of all values, as all scores are equal. x: [batch, time, 1, dim].
Variable at_padding(const Variable& value, const Tensor& padding, bool sorted) {
  const Shape& shape = value.shape();
  const std::int64_t time = shape[1], dim = shape[3];
  const auto add = [=](const double* from, double* to, bool back) {
    for (std::int64_t b = 0; b < shape[0]; ++b)
      for (std::int64_t i = 0; i < time; ++i)
        for (std::int64_t j = sorted ? i : 0; j < (sorted ? i + 1 : time); ++j) {
          if (padding.data<std::uint8_t>()[b * time + i] == 0) continue;
          const double weight = sorted ? 1 : 1 / static_cast<double>(time);
          const std::int64_t source = b * time + (back ? i : j), target = b * time + (back ? j : i);
          for (std::int64_t d = 0; d < dim; ++d)
            to[target * dim + d] += weight * from[source * dim + d];
        }
  };
  const Tensor y = Tensor::zeros(shape, DType::f64, value.value().device());
  add(value.value().data<double>(), y.data<double>(), false);
  return record(y, {value}, [add](BackwardContext& gradients) {
    const Tensor dy = gradients.output();
    const Tensor dvalue = Tensor::zeros(dy.shape(), DType::f64, dy.device());
    add(dy.data<double>(), dvalue.data<double>(), true);
    gradients.set(0, dvalue);
  });
}

}  // namespace

void check_hash_attention(const GoldenFile& file) {
  const Variable shared = leaf_of(file, "inputs/qk");
  const Variable value = leaf_of(file, "inputs/v");
  expect_extent(file, "batch", shared.shape()[0]);
  expect_extent(file, "len", shared.shape()[1]);
  expect_extent(file, "d_head", shared.shape()[2]);

  LshAttentionOptions options = {.causal = file.flag("causal"), .self_score = -5e4};
  const Variable x = by_row(shared);
  Tensor buckets;
  if (file.has("inputs/rotations")) {
    options.chunk = file.integer("bucket_size");
    options.same_bucket = !file.flag("attend_across_buckets");
    options.count_once = !file.flag("allow_duplicate_attention");
    options.wrap_rounds = true;
    options.count_floor = 1e-9;
    buckets = buckets_of(file, x.value(), options);
  } else {
    options.chunk = x.shape()[1];
    buckets =
        Tensor::zeros({x.shape()[0], 1, 1, x.shape()[1]}, DType::i32, shared.value().device());
  }
  const Variable values = by_row(value);
  const bool masked = file.flag("masked");
  if (masked) options.hidden = padding_of(file);
  Variable y = lsh_attention(x, values, buckets, options);
  if (masked) y = add(y, at_padding(values, options.hidden, file.has("inputs/rotations")));
  // The self-attention score of the reference costs five digits for isolated tokens.
  expect_near(file.name() + ": outputs/y", y.value(), file.numbers("outputs/y"), 1e-10);
  backward({y}, {file.numbers("inputs/upstream").clone().reshape(y.shape())});
  expect_gradient(file, "qk", gradient_of(shared));
  expect_gradient(file, "v", gradient_of(value));
}

}  // namespace longspan::golden
