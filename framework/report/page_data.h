// The data of a page, as its script parses it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/report/charts.h"
#include "framework/report/report_page.h"

namespace longspan {

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

}  // namespace longspan
