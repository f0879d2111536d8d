// Locality-sensitive hashing of vectors by random rotations (Andoni et al. 2015) and the order that
// sorts a sequence by bucket, as hash attention needs them (Reformer, Kitaev et al. 2020).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Buckets of one hash, or of two independent ones whose numbers make up one: first * second. Each
// factor is even, or 1.
struct BucketCount {
  std::int64_t first = 1;
  std::int64_t second = 1;

  std::int64_t total() const { return first * second; }
  // Random directions that a hash needs: the opposite of each is one too.
  std::int64_t columns() const { return first / 2 + second / 2; }
  friend bool operator==(const BucketCount&, const BucketCount&) = default;
};

// Cuts an even number of buckets into the two even factors of the least sum where it is a multiple
// of 4 and at least 64: two hashes of 128 directions instead of one of 16,384. Throws Failure for
// an odd number but 1.
BucketCount factored(std::int64_t buckets);

// The bucket of x in a round is the index of the largest of [x R; -x R], the first where several
// are; with two factors h1 + first * h2, R's columns being those of h1 and then of h2. Padding has
// a bucket of its own, `count.total()`. A single bucket needs no rotations. x: [batch, time, heads,
// dim]. rotations: [heads, dim, rounds, count.columns()], x's accumulator dtype. padding: [batch,
// time] u8, 1 where there is padding; length: [batch] i64, positions from there on are padding;
// either may be undefined. buckets: [batch, heads, rounds, time] i32, written.
struct BucketHash {
  Tensor x;
  Tensor rotations;
  BucketCount count;
  Tensor padding = {};
  Tensor length = {};
  Tensor buckets;
};
void hash_buckets(Cpu, const BucketHash&);
void hash_buckets(Cuda, const BucketHash&);

// order[.., s] is the position of the s-th element of the sequence sorted by bucket, positions of
// one bucket in their order; place[.., t] is where position t went: the inverse permutation.
// Elements of bucket `buckets`, which is padding, are left out: their place is -1, and so are the
// last entries of order. bucket, order, place: [.., time] i32, each row a sequence of its own.
// Takes linear time. Throws Failure where a bucket is not in 0 .. buckets, except on a GPU, where
// nobody waits for it: there such an element is taken for padding.
struct BucketSort {
  Tensor bucket;
  std::int64_t buckets = 0;
  Tensor order = {};
  Tensor place = {};
};
void sort_buckets(Cpu, const BucketSort&);
void sort_buckets(Cuda, const BucketSort&);

// Throw Failure where the tensors do not fit each other.
void check(const BucketHash&);
void check(const BucketSort&);

}  // namespace longspan
