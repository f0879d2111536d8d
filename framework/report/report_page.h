// A report of runs as one HTML page that needs no network, and its local server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/report/charts.h"
#include "framework/report/metrics_file.h"
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
  std::string data;       // JSON for the script
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

// A chart on the page: of all runs that have its columns, or of one.
struct PlacedChart {
  Chart chart;
  std::optional<std::size_t> run = {};
};

// Returns the union of all runs' columns.
std::vector<std::string> columns_of(std::span<const ReportedRun> runs);

// Returns whether the run logs the column more than once with one constant value.
bool is_constant(const ReportedRun& run, const std::string& column);

// Returns the charts of all runs' columns; stacked charts once per run that has them. The loss
// always has a chart, other columns only when they are not constant.
std::vector<PlacedChart> placed_charts(std::span<const ReportedRun> runs);

// Returns JSON, escaped for a <script> element:
// {"runs": [{"name", "samples", "attention", "step": [], "tokens": [], "seconds": [] or null,
// "columns": {NAME: {"mean": [], "least": [], "most": [], "at": []}}}],
// "charts": [{"label", "factor", "columns", "stacked", "names", "run"}]}.
// Per-class columns are excluded. A null mean is a gap. Without "at" a column has a value in each
// bucket; without "least" and "most" they equal the mean.
std::string page_data(std::span<const ReportedRun> runs, std::span<const PlacedChart> charts);

// Downsamples series and samples so that all data takes about 4 MB at most.
void thin_for_page(std::span<ReportedRun> runs);

// A local HTTP server of one page for one user's browser.

// The served content, generated on request by the server's thread.
struct ServedPage {
  std::function<std::string()> version;  // of the current data; unchanged if nothing is new
  std::function<std::string()> page;     // of that version; HTML
  std::function<std::string()> update;   // of that version; JSON
};

// Returns whether a request's Host header matches the address: 127.0.0.1 or localhost with the
// port, which browsers omit for 80.
bool is_local_host(std::string_view host, std::int64_t port);

// Listens on 127.0.0.1 only and answers 403 without the random part of its address. Serves GET and
// HEAD at the address and its sibling "update". The ETag is the version; a current client gets 304.
// Requests for a host other than 127.0.0.1 or localhost are refused, to prevent DNS rebinding.
class PageServer {
 public:
  // `port`: 0 selects a free one. From construction on SIGINT and SIGTERM end `run`. Throws
  // ConfigurationError where the port is in use or not permitted, and Failure where none is free.
  PageServer(std::int64_t port, ServedPage page);
  ~PageServer();

  // "http://127.0.0.1:8080/0123...ef/"
  std::string address() const;
  // Returns after SIGINT or SIGTERM.
  void run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace longspan
