// How the elements of a tensor are distributed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// Counts in buckets that are the same everywhere, eight to a doubling: those of parts of a tensor
// add up to those of the whole. Elements nearer to zero than 2^-40 are in one bucket, those from
// 2^24 on in the outermost ones. What is no finite number is left out.
struct Histogram {
  double smallest = 0;
  double largest = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<std::int64_t> counts = {};  // by bucket; empty: of no element

  std::int64_t count() const;
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// How many buckets there are, and the upper end of each; the lower end is that of the one before.
std::size_t histogram_buckets();
double upper_end_of_bucket(std::size_t bucket);
// The bucket of a finite number.
std::size_t bucket_of(double value);

// Of the elements of a tensor on the host, f32 or f64, each multiplied by `factor`.
Histogram histogram_of(const Tensor& tensor, double factor = 1);

// Of those of both. Either may be of no element.
Histogram added(const Histogram& one, const Histogram& other);

// What is between the outermost buckets that are not empty, with runs of empty ones as one: so a
// board wants them.
struct Bars {
  std::vector<double> upper_ends;
  std::vector<double> counts;
};
Bars bars_of(const Histogram& histogram);

}  // namespace longspan
