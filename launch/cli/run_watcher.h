// Runs as their report shows them, once or as they go on.
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

// Adds to `troubles` what of it cannot be read beside its metrics. Throws DataError where it is no
// run, has logged no step, or has metrics that are damaged.
ReportedRun read_reported_run(const std::filesystem::path& path,
                              std::vector<std::string>& troubles);

// Since 1970.
std::int64_t seconds_now();

// The page of runs that may be training. What is read again is what they wrote since: a look at a
// run costs no more for its being long.
class RunWatcher {
 public:
  // Throws DataError as read_reported_run does, but not for a run that has logged no step yet.
  RunWatcher(const std::vector<std::filesystem::path>& paths, const ChartLibrary& library);

  // Looks at the runs, at most twice a second. The same text as before where nothing is new.
  std::string version();
  // Of that version.
  std::string page() const { return live_page(parts_, library_, version_text()); }
  std::string update() const { return page_update(parts_); }

 private:
  struct Watched {
    std::filesystem::path path;
    TailedMetrics metrics;
    TailedFile log;
    TailedFile samples;
    ReportedRun run;                        // but for its metrics
    std::deque<std::string> warnings = {};  // of the log
    std::filesystem::path map = {};         // the newest file of what heads look at
    std::filesystem::file_time_type map_changed = {};
  };
  bool poll(Watched& watched) const;
  void make_parts();
  std::string version_text() const;

  const ChartLibrary& library_;
  std::vector<Watched> runs_;
  PageParts parts_;
  std::string beginning_;  // of versions: another one for each time that the program is started
  std::int64_t number_ = 0;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace longspan
