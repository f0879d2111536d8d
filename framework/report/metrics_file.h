// Reads a run's metrics.jsonl in bounded memory, as downsampled time series that preserve peaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longspan {

// Downsampled time series that preserve peaks.

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

// Derived column: seconds of a step outside of data loading, communication waits, checkpoints and
// validation. Present only where the lines have these columns.
inline constexpr const char* compute_seconds = "compute_seconds";

// A column's last value and its gaps.
struct ColumnEnd {
  double value = 0;                 // the last finite value
  std::int64_t step = -1;           // its step; -1: none
  std::int64_t gaps = 0;            // number of non-finite values
  std::int64_t first_gap = 0;       // step of the first gap
  std::string reason_of_last = {};  // "nan", "inf" or "-inf", where the last value is a gap
};

// A string in a line, such as a generated sample.
struct MetricText {
  std::string name;
  std::int64_t step = 0;
  std::string text;
};

struct RunMetrics {
  DownsampledSeries series;            // all numbers but "step" and "tokens"
  std::vector<ColumnEnd> ends = {};    // by column
  std::vector<MetricText> texts = {};  // the newest few, oldest first
  std::int64_t lines = 0;              // counted lines
  std::int64_t repeated = 0;           // superseded lines, whose step later lines repeat
  std::int64_t step = 0;               // the last
  double tokens = 0;                   // since step 0
  double seconds = 0;                  // of training since step 0; 0: not logged
};

// Parses the file up to its current end, since a run may be writing to it. An unterminated last
// line is ignored. Where steps repeat, as after a rollback to a checkpoint, the later lines count.
// Seconds are sums of "step_seconds" or, without it, of tokens divided by "tokens_per_second";
// negative values and those beyond 1e10 are ignored. Throws DataError for a missing file, without a
// complete line, or, with the line number, for an invalid line.
RunMetrics read_run_metrics(const std::filesystem::path& path, std::size_t max_buckets = 2000);

}  // namespace longspan
