// Runs as one HTML page that needs no network.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/report/chart_library.h"
#include "framework/report/run_metrics.h"

namespace longspan {

struct ReportedRun {
  std::string name;                        // no other run's
  std::string state;                       // "running", ...
  std::optional<std::int64_t> steps = {};  // that it is to make
  RunMetrics metrics;
  std::map<std::string, std::string> configuration = {};  // values by key, as they are written
  std::vector<std::string> warnings = {};  // lines of its log that are no plain information
};

// The whole page: curves of all runs over each other, tables of how they end and of what differs in
// their configurations, texts from their lines, warnings, and the library's licence. `made_at`: in
// seconds since 1970. It stays below 5 MB for some 2,500 columns: series are thinned for it.
std::string report_page(std::vector<ReportedRun> runs,
                        std::int64_t made_at,
                        const ChartLibrary& library);

}  // namespace longspan
