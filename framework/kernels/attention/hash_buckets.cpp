#include "framework/kernels/attention/hash_buckets.h"

namespace longspan {

BucketCount factored(std::int64_t buckets) {
  require(buckets == 1 || (buckets > 0 && buckets % 2 == 0),
          "expected an even number of buckets, found {}",
          buckets);
  if (buckets < 64 || buckets % 4 != 0) return {.first = buckets};
  std::int64_t second = 2;
  for (std::int64_t factor = 2; factor * factor <= buckets; factor += 2)
    if (buckets % factor == 0 && buckets / factor % 2 == 0) second = factor;
  return {.first = buckets / second, .second = second};
}

void check(const BucketHash& hash) {
  const Shape& x = hash.x.shape();
  require(
      x.dimensions() == 4 && is_floating(hash.x.dtype()),
      "hash_buckets: expected x of a floating-point dtype [batch, time, heads, dim], found {} {}",
      name_of(hash.x.dtype()),
      x.to_string());
  const Shape& buckets = hash.buckets.shape();
  require(hash.buckets.dtype() == DType::i32 && buckets.dimensions() == 4 &&
              buckets == Shape{x[0], x[2], buckets[2], x[1]},
          "hash_buckets: expected buckets i32 [batch, heads, rounds, time] for x {}, found {} {}",
          x.to_string(),
          name_of(hash.buckets.dtype()),
          buckets.to_string());
  require(hash.count.first == 1 || hash.count.first % 2 == 0,
          "hash_buckets: expected an even first factor");
  require(hash.count.second == 1 || hash.count.second % 2 == 0,
          "hash_buckets: expected an even second factor");
  if (hash.count.total() > 1)
    require(hash.rotations.dtype() == accumulator_of(hash.x.dtype()) &&
                hash.rotations.shape() == Shape{x[2], x[3], buckets[2], hash.count.columns()},
            "hash_buckets: expected rotations {} [{}, {}, {}, {}], found {} {}",
            name_of(accumulator_of(hash.x.dtype())),
            x[2],
            x[3],
            buckets[2],
            hash.count.columns(),
            name_of(hash.rotations.dtype()),
            hash.rotations.shape().to_string());
  if (hash.padding.defined())
    require(hash.padding.dtype() == DType::u8 && hash.padding.shape() == Shape{x[0], x[1]},
            "hash_buckets: expected padding u8 [batch, time], found {}",
            hash.padding.shape().to_string());
  if (hash.length.defined())
    require(hash.length.dtype() == DType::i64 && hash.length.elements() == x[0],
            "hash_buckets: expected {} lengths, found {}",
            x[0],
            hash.length.elements());
}

void check(const BucketSort& sort) {
  const Shape& shape = sort.bucket.shape();
  for (const Tensor* tensor : {&sort.bucket, &sort.order, &sort.place})
    require(tensor->dtype() == DType::i32 && tensor->shape() == shape,
            "sort_buckets: expected bucket, order and place i32 {}, found {} {}",
            shape.to_string(),
            name_of(tensor->dtype()),
            tensor->shape().to_string());
}

}  // namespace longspan
