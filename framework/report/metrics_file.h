// Reads a run's metrics.jsonl in bounded memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/report/downsampled_series.h"

namespace longspan {

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
