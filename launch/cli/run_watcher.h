// Report pages of runs, static or updated during training.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/report/report_page.h"
#include "framework/report/tailed_file.h"
#include "framework/report/tailed_metrics.h"

namespace longspan {

// Reads a run. Adds to `troubles` what cannot be read other than its metrics. Throws DataError if
// it is not a run, has logged no step, or has damaged metrics.
ReportedRun read_reported_run(const std::filesystem::path& path,
                              std::vector<std::string>& troubles);

// Returns the current time in seconds since 1970.
std::int64_t seconds_now();

// The page of runs that may be training. Each update reads only what was appended, so its cost does
// not grow with the length of a run.
class RunWatcher {
 public:
  // Throws DataError as read_reported_run does, but not for a run that has logged no step yet.
  RunWatcher(const std::vector<std::filesystem::path>& paths, const ChartLibrary& library);

  // Polls the runs, at most twice a second. Returns an unchanged version if nothing is new.
  std::string version();
  // Page and update of that version.
  std::string page() const { return live_page(parts_, library_, version_text()); }
  std::string update() const { return page_update(parts_); }

 private:
  struct Watched {
    std::filesystem::path path;
    TailedMetrics metrics;
    TailedFile log;
    TailedFile samples;
    ReportedRun run;                        // without its metrics
    std::deque<std::string> warnings = {};  // of the log
    std::filesystem::path map = {};         // newest file of attention maps
    std::filesystem::file_time_type map_changed = {};
  };
  bool poll(Watched& watched) const;
  void make_parts();
  std::string version_text() const;

  const ChartLibrary& library_;
  std::vector<Watched> runs_;
  PageParts parts_;
  std::string beginning_;  // prefix of versions, different for each program start
  std::int64_t number_ = 0;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace longspan
