// The numbers of a page, as its script reads them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/report/charts.h"
#include "framework/report/report_page.h"

namespace longspan {

// A chart of the page: of all runs that have its columns, or of one.
struct PlacedChart {
  Chart chart;
  std::optional<std::size_t> run = {};
};

// The columns of all runs, each once.
std::vector<std::string> columns_of(std::span<const ReportedRun> runs);

// Whether the run logs the column more than once, and always with the same value.
bool is_constant(const ReportedRun& run, const std::string& column);

// Charts of the columns of all runs; those that are stacked once for each run that has them. The
// loss has one, and of the others those that are not constant.
std::vector<PlacedChart> placed_charts(std::span<const ReportedRun> runs);

// JSON, to stand inside of a <script>:
// {"runs": [{"name", "samples", "attention", "step": [], "tokens": [], "seconds": [] or null,
// "columns": {NAME:
// {"mean": [], "least": [], "most": [], "at": []}}}], "charts": [{"label", "factor", "columns",
// "stacked", "names", "run"}]}. Columns of classes are not among them. A mean that is null stands
// for what was no number. Without "at" a column has a value in each bucket; without "least" and
// "most" they are the mean.
std::string page_data(std::span<const ReportedRun> runs, std::span<const PlacedChart> charts);

// Thins series and samples so that the data of all takes some 4 MB at most.
void thin_for_page(std::span<ReportedRun> runs);

}  // namespace longspan
