// Runs as one HTML page that needs no network.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/report/chart_library.h"
#include "framework/report/metrics_file.h"
#include "framework/report/run_attention.h"
#include "framework/report/run_samples.h"

namespace longspan {

struct ReportedRun {
  std::string name;                        // no other run's
  std::string state;                       // "running", ...
  std::optional<std::int64_t> steps = {};  // that it is to make
  RunMetrics metrics;
  std::map<std::string, std::string> configuration = {};  // values by key, as they are written
  std::vector<std::string> warnings = {};  // lines of its log that are no plain information
  std::vector<SamplesOfStep> samples = {};
  RunAttention attention = {};
};

// What a page shows of runs: curves of all of them over each other, tables of how they end and of
// what differs in their configurations, texts, warnings. HTML, but for `data`.
struct PageParts {
  std::string title;
  std::string runs;       // the table of them
  std::string charts;     // places of the charts
  std::string samples;    // places of what they wrote; empty where they wrote nothing
  std::string attention;  // places of what their heads look at; likewise
  std::string tables;     // the other tables, and texts
  std::string data;       // JSON for the script (page_data.h)
};

// made_at: in seconds since 1970. All of them stay below 4.5 MB for some 2,500 columns: series are
// thinned for it.
PageParts page_parts(std::vector<ReportedRun> runs, std::int64_t made_at);

// The whole page, with the library and its licence. Below 5 MB.
std::string report_page(const PageParts& parts, const ChartLibrary& library);
std::string report_page(std::vector<ReportedRun> runs,
                        std::int64_t made_at,
                        const ChartLibrary& library);

// The same for one who is told, at "update" beside it, of a version of the runs that is newer than
// that one.
std::string live_page(const PageParts& parts,
                      const ChartLibrary& library,
                      const std::string& version);
// What is told there: a JSON object of the parts, by their names.
std::string page_update(const PageParts& parts);

}  // namespace longspan
