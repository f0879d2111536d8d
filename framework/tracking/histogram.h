// Histograms of a tensor's elements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// Counts in fixed buckets, eight per doubling, so that histograms of shards add up to the full
// tensor's. Elements of magnitude below 2^-40 share one bucket; those from 2^24 on are in the
// outermost ones. Non-finite elements are excluded.
struct Histogram {
  double smallest = 0;
  double largest = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<std::int64_t> counts = {};  // by bucket; empty: no elements

  std::int64_t count() const;
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// Return the number of buckets, and a bucket's upper end; its lower end is the previous one's upper
// end.
std::size_t histogram_buckets();
double upper_end_of_bucket(std::size_t bucket);
// Returns the bucket of a finite number.
std::size_t bucket_of(double value);

// Returns the histogram of a host tensor of f32 or f64, with each element multiplied by `factor`.
Histogram histogram_of(const Tensor& tensor, double factor = 1);

// Returns the sum of two histograms. Either may be empty.
Histogram added(const Histogram& one, const Histogram& other);

// The non-empty range of buckets with runs of empty ones merged, as TensorBoard expects it.
struct Bars {
  std::vector<double> upper_ends;
  std::vector<double> counts;
};
Bars bars_of(const Histogram& histogram);

}  // namespace longspan
