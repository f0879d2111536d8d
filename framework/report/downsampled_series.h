// Values over many steps in few buckets, of which none hides a peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longspan {

// The steps of a bucket are said by its last one.
struct Bucket {
  std::int64_t step = 0;
  double tokens = 0;   // since step 0
  double seconds = 0;  // since step 0
};

// What one column says in one bucket.
struct Cell {
  double least = 0;
  double most = 0;
  double sum = 0;
  std::int64_t count = 0;  // of its values
  std::int64_t gaps = 0;   // of what was written there but is no number

  bool is_empty() const { return count == 0 && gaps == 0; }
  // Undefined where `count` is 0.
  double mean() const { return sum / static_cast<double>(count); }
  void add(double value);
  void add(const Cell& other);
};

// Columns of values in at most so many buckets of equally many steps: when there are more, the
// buckets become twice as wide, as often as it takes. Memory does not grow with the steps.
class DownsampledSeries {
 public:
  // At least 2 buckets.
  explicit DownsampledSeries(std::size_t most_buckets);

  // The number of a column; a new name makes a new one.
  std::size_t column(std::string_view name);
  std::optional<std::size_t> find(std::string_view name) const;
  const std::vector<std::string>& names() const { return names_; }

  // Begins a step, which is beyond the last one.
  void begin(const Bucket& at);
  // At the step that was begun. A value that is not finite is a gap.
  void add(std::size_t column, double value);

  // Makes do with fewer buckets.
  void thin_to(std::size_t most_buckets);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  // By bucket; there may be fewer cells than buckets, the rest is empty.
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
