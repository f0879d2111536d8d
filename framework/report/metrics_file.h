// What a run's metrics.jsonl says, in as much memory as a picture of it needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/report/downsampled_series.h"

namespace longspan {

// What is made of others: seconds of a step in which it was neither reading, waiting, saving nor
// validating. Only where the lines have these.
inline constexpr const char* computing_seconds = "computing_seconds";

// How a column ends, and where it has gaps.
struct ColumnEnd {
  double value = 0;                 // the last that is a number
  std::int64_t step = -1;           // of it; -1: none is
  std::int64_t gaps = 0;            // of what was written but is no number
  std::int64_t first_gap = 0;       // its step
  std::string reason_of_last = {};  // "nan", "inf" or "-inf", where a gap is the last
};

// A text in a line, such as one that the model made.
struct MetricText {
  std::string name;
  std::int64_t step = 0;
  std::string text;
};

struct RunMetrics {
  DownsampledSeries series;            // all numbers but "step" and "tokens"
  std::vector<ColumnEnd> ends = {};    // by column
  std::vector<MetricText> texts = {};  // the newest few, oldest first
  std::int64_t lines = 0;              // that count
  std::int64_t repeated = 0;           // that do not, as later lines have their step again
  std::int64_t step = 0;               // the last
  double tokens = 0;                   // since step 0
  double seconds = 0;                  // of training since step 0; 0 where the lines do not tell
};

// Reads the file line by line, as far as it goes now: a run may be writing to it. A last line
// without its end does not count. Where steps come again, as after a run that went back to an
// earlier checkpoint, the later lines count. Seconds are sums of "step_seconds" or, without it, of
// tokens by "tokens_per_second"; what is negative or beyond 1e10 there is left out. Throws
// DataError where there is no file, no whole line, or something else than a line of metrics, which
// is told with its number.
RunMetrics read_run_metrics(const std::filesystem::path& path, std::size_t most_buckets = 2000);

}  // namespace longspan
