// Files of a run that `longspan report` and `longspan list` read, separated by 0x1E: metrics.jsonl,
// samples.jsonl, log.txt and a file of attention weights.
#include <nlohmann/json.hpp>

#include "framework/report/report_page.h"
#include "framework/report/tailed_file.h"
#include "framework/report/tailed_metrics.h"
#include "launch/cli/metrics_reader.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void expect_same(const RunMetrics& a, const RunMetrics& b) {
  expect(a.lines == b.lines && a.repeated == b.repeated && a.step == b.step,
         "a file that grows is read as another one than the whole");
  expect(a.series.names() == b.series.names() && a.texts.size() == b.texts.size(),
         "a file that grows has other columns than the whole");
}

// Reads half of the file, then the rest, as from a running job.
void read_growing(const InputFolder& folder, std::string_view metrics, const RunMetrics& whole) {
  const std::string_view half = metrics.substr(0, metrics.size() / 2);
  TailedMetrics growing(folder.put("growing.jsonl", half), 8);
  growing.poll();
  folder.put("growing.jsonl", metrics);
  growing.poll();
  expect_same(growing.metrics(), whole);
}

void read_page(std::vector<ReportedRun> runs) {
  const PageParts parts = page_parts(runs, 0);
  expect(nlohmann::json::accept(parts.data), "the numbers of a page are no JSON");
  expect(parts.data.find("</") == std::string::npos, "the numbers of a page end its script");
  expect(nlohmann::json::accept(page_update(parts)), "what a page is told is no JSON");
}

void read_newest(const std::string& metrics) {
  for (const MetricsPart& part :
       {newest_metrics(metrics, 3), newest_validation(metrics), metrics_from(metrics, 2)})
    for (const MetricsLine& line : part.lines) {
      format_metric(line, validation_name(line));
      format_metric(line, "loss");
    }
}

void read_run(std::string_view bytes) {
  static const InputFolder folder;
  const std::string_view lines = take_part(bytes);
  const std::string metrics = folder.put("metrics.jsonl", lines);
  read_newest(metrics);
  ReportedRun run = {.name = "run", .state = "running", .metrics = {DownsampledSeries(8)}};
  run.samples = read_run_samples(folder.put("samples.jsonl", take_part(bytes)));
  run.warnings = log_warnings(folder.put("log.txt", take_part(bytes)));
  run.attention = read_run_attention(folder.put("step-1.json", bytes));
  if (is_read([&] { run.metrics = read_run_metrics(metrics, 8); }))
    read_growing(folder, lines, run.metrics);
  read_page({run});
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_run);
}
