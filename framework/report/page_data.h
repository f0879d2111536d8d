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

// Charts of all columns of all runs; those that are stacked once for each run that has them.
std::vector<PlacedChart> placed_charts(std::span<const ReportedRun> runs);

// JSON, to stand inside of a <script>:
// {"runs": [{"name", "samples", "attention", "step": [], "tokens": [], "seconds": [] or null,
// "columns": {NAME:
// {"mean": [], "least": [], "most": [], "at": []}}}], "charts": [{"label", "factor", "columns",
// "stacked", "names", "run"}]}. A mean that is null stands for what was no number. Without "at" a
// column has a value in each bucket; without "least" and "most" they are the mean.
std::string page_data(std::span<const ReportedRun> runs, std::span<const PlacedChart> charts);

// Thins series and samples so that the data of all takes some 4 MB at most.
void thin_for_page(std::span<ReportedRun> runs);

}  // namespace longspan
