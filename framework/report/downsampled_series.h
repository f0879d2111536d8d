// Downsampled time series that preserve peaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longspan {

// A bucket of steps, identified by its last step.
struct Bucket {
  std::int64_t step = 0;
  double tokens = 0;   // since step 0
  double seconds = 0;  // since step 0
};

// Values of one column in one bucket.
struct Cell {
  double least = 0;
  double most = 0;
  double sum = 0;
  std::int64_t count = 0;  // number of values
  std::int64_t gaps = 0;   // number of non-finite values

  bool is_empty() const { return count == 0 && gaps == 0; }
  // Undefined where `count` is 0.
  double mean() const { return sum / static_cast<double>(count); }
  void add(double value);
  void add(const Cell& other);
};

// Columns of values in a bounded number of buckets of equal width. When there are more buckets,
// their width is doubled as often as needed. Memory is independent of the number of steps.
class DownsampledSeries {
 public:
  // Requires at least 2 buckets.
  explicit DownsampledSeries(std::size_t max_buckets);

  // Returns the index of a column, which is created for a new name.
  std::size_t column(std::string_view name);
  std::optional<std::size_t> find(std::string_view name) const;
  const std::vector<std::string>& names() const { return names_; }

  // Begins a step. Requires that it is greater than the last one.
  void begin(const Bucket& at);
  // Adds a value at the current step. A non-finite value is a gap.
  void add(std::size_t column, double value);

  // Reduces the number of buckets.
  void thin_to(std::size_t max_buckets);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  // Indexed by bucket; missing cells at the end are empty.
  const std::vector<Cell>& cells(std::size_t column) const { return cells_[column]; }

 private:
  void widen();

  std::size_t most_;
  std::int64_t width_ = 1;  // of a bucket, in steps
  std::vector<Bucket> buckets_;
  std::vector<std::vector<Cell>> cells_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> numbers_;
};

}  // namespace longspan
