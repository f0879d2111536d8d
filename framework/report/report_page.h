// A report of runs as one HTML page that needs no network.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/report/charts.h"
#include "framework/report/metrics_file.h"
#include "framework/report/run_attention.h"
#include "framework/report/run_samples.h"

namespace longspan {

struct ReportedRun {
  std::string name;                        // unique
  std::string state;                       // "running", ...
  std::optional<std::int64_t> steps = {};  // planned total
  RunMetrics metrics;
  std::map<std::string, std::string> configuration = {};  // values by key, as written
  std::vector<std::string> warnings = {};                 // warning and error lines of its log
  std::vector<SamplesOfStep> samples = {};
  RunAttention attention = {};
};

// The parts of a report page: overlaid curves of all runs, tables of final metrics and
// configuration differences, texts and warnings. HTML, except `data`.
struct PageParts {
  std::string title;
  std::string runs;       // the table of runs
  std::string charts;     // containers of the charts
  std::string samples;    // containers of the samples; empty without samples
  std::string attention;  // containers of the attention maps; empty without maps
  std::string tables;     // the other tables, and texts
  std::string data;       // JSON for the script (page_data.h)
};

// made_at: seconds since 1970. The parts stay below 4.5 MB for about 2,500 columns, since series
// are downsampled.
PageParts page_parts(std::vector<ReportedRun> runs, std::int64_t made_at);

// Returns the complete page, including the chart library and its license. Below 5 MB.
std::string report_page(const PageParts& parts, const ChartLibrary& library);
std::string report_page(std::vector<ReportedRun> runs,
                        std::int64_t made_at,
                        const ChartLibrary& library);

// Returns a page that polls the sibling path "update" for a newer version of the runs.
std::string live_page(const PageParts& parts,
                      const ChartLibrary& library,
                      const std::string& version);
// Returns the response of "update": a JSON object of the parts, by name.
std::string page_update(const PageParts& parts);

}  // namespace longspan
