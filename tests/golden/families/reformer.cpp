// Hash attention and shared queries and keys (lucidrains/reformer-pytorch).
#include <gtest/gtest.h>

#include "framework/autograd/hash_attention.h"
#include "framework/kernels/hash_buckets.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

// [batch * heads, time, dim]: each row is a batch row of one head.
Variable by_row(const Variable& x) {
  const Shape& shape = x.shape();
  return reshape(x, {shape[0], shape[1], 1, shape[2]});
}

// The reference gives the buckets of round r the numbers from r * count on, [batch, rounds * time].
Tensor numbered_as_reference(const Tensor& buckets, std::int64_t count) {
  const Tensor result = Tensor::empty(buckets.shape(), DType::i64, buckets.device());
  const std::int64_t rounds = buckets.shape()[2], time = buckets.shape()[3];
  for (std::int64_t i = 0; i < buckets.elements(); ++i)
    result.data<std::int64_t>()[i] = buckets.data<std::int32_t>()[i] + i / time % rounds * count;
  return result;
}

Tensor buckets_of(const GoldenFile& file, const Tensor& x, HashAttention& options) {
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
  const Tensor& wanted = file.ids("outputs/buckets");
  EXPECT_TRUE(found.elements() == wanted.elements() &&
              std::memcmp(found.bytes(), wanted.bytes(), wanted.byte_size()) == 0)
      << file.name() << ": other buckets than the reference's";
  return buckets;
}

}  // namespace

void check_hash_attention(const GoldenFile& file) {
  if (file.flag("masked")) throw DataError("{}: a mask is not known here", file.name());
  const Variable shared = leaf_of(file, "inputs/qk");
  const Variable value = leaf_of(file, "inputs/v");
  expect_extent(file, "batch", shared.shape()[0]);
  expect_extent(file, "len", shared.shape()[1]);
  expect_extent(file, "d_head", shared.shape()[2]);

  HashAttention options = {.causal = file.flag("causal"), .self_score = -5e4};
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
  const Variable y = hash_attention(x, by_row(value), buckets, options);
  // The reference's score of a token with itself costs five digits where it is alone.
  expect_near(file.name() + ": outputs/y", y.value(), file.numbers("outputs/y"), 1e-10);
  backward({y}, {file.numbers("inputs/upstream").clone().reshape(y.shape())});
  expect_gradient(file, "qk", gradient_of(shared));
  expect_gradient(file, "v", gradient_of(value));
}

}  // namespace longspan::golden
