#include "framework/report/report_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/report/charts.h"
#include "framework/report/page_text.h"

namespace longspan::report_page_test {
namespace {

const ChartLibrary library = {"a library", "var drawing;", "p {}", "a licence & more"};

ReportedRun run_of(const std::string& name, std::int64_t steps, std::size_t columns) {
  ReportedRun run = {.name = name, .state = "finished", .metrics = {DownsampledSeries(2000)}};
  for (std::size_t i = 0; i < columns; ++i)
    run.metrics.series.column(i == 0 ? "loss" : "number_" + std::to_string(i));
  for (std::int64_t step = 1; step <= steps; ++step) {
    run.metrics.series.begin(
        {step, 1e6 * static_cast<double>(step), 0.123456789 * static_cast<double>(step)});
    for (std::size_t i = 0; i < columns; ++i)
      run.metrics.series.add(
          i, std::sin(static_cast<double>(step) * static_cast<double>(i + 1)) * 1e-5);
  }
  run.metrics.ends.resize(columns, {.value = 0.5, .step = steps});
  run.metrics.step = steps;
  run.metrics.lines = steps;
  run.metrics.seconds = 1;
  return run;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

nlohmann::json data_of(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(PageText, EscapesMarkup) {
  EXPECT_EQ(html("<a href='x'>\"&\x01\n"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&#xfffd;\n");
  EXPECT_EQ(script_string("</script>\"\n"), R"("\u003c/script>\"\n")");
  EXPECT_EQ(nlohmann::json::parse(script_string("</script><!--")), "</script><!--");
  EXPECT_EQ(script_string("\xff"), R"("\ufffd")");
}

TEST(PageText, FormatsNumbers) {
  EXPECT_EQ(short_number(1.0 / 3), "0.333333");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(counted_text(1234567.0), "1,234,567");
  EXPECT_EQ(counted_text(1e300), "1e+300");
  EXPECT_EQ(time_text(12.34), "12.3 s");
  EXPECT_EQ(time_text(1e300), "1e+300 s");
  EXPECT_EQ(time_text(3700), "1 h 2 min");
}

TEST(Charts, ListsKnownColumnsFirstAndNoClassColumns) {
  const std::vector<std::string> columns = {"peculiar_steps",
                                            "loss",
                                            "loss_tags",
                                            "learning_rate",
                                            "grad_norm",
                                            "loss_scale",
                                            "step_seconds",
                                            "data_loading_seconds",
                                            "communication_wait_seconds",
                                            compute_seconds,
                                            "validation_loss",
                                            "validation_f1/PERSON",
                                            "validation_macro_f1"};
  const auto charts = charts_of(columns);
  ASSERT_EQ(charts.size(), 9U);
  EXPECT_EQ(charts[0].columns, (std::vector<std::string>{"loss", "validation_loss"}));
  EXPECT_EQ(charts[0].unit, "nats");
  EXPECT_EQ(charts[1].title, "Validation: macro f1");
  EXPECT_EQ(charts[1].unit, "percent");
  EXPECT_EQ(charts[2].title, "Loss: tags");
  EXPECT_EQ(charts.back().title, "peculiar steps");
  const auto division =
      std::ranges::find_if(charts, [](const Chart& chart) { return chart.is_stacked; });
  ASSERT_NE(division, charts.end());
  EXPECT_EQ(division->columns,
            (std::vector<std::string>{
                compute_seconds, "communication_wait_seconds", "data_loading_seconds"}));
}

TEST(Charts, DistinguishesClassColumnsFromFileColumns) {
  const auto found = class_column_of("validation_f1/a/b:c");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->figure, "f1");
  EXPECT_EQ(found->name, "a/b:c");
  for (const char* const column : {"loss", "f1/a", "validation_loss", "validation_loss:a/b.txt"})
    EXPECT_FALSE(class_column_of(column)) << column;
}

void add_column(ReportedRun& run, const std::string& name, const std::vector<double>& values) {
  const std::size_t column = run.metrics.series.column(name);
  run.metrics.ends.resize(column + 1);
  for (const double value : values) {
    const std::int64_t step = ++run.metrics.step;
    run.metrics.series.begin({step, static_cast<double>(step), static_cast<double>(step)});
    run.metrics.series.add(column, value);
    run.metrics.ends[column] = {.value = value, .step = step};
  }
}

TEST(ReportPage, OmitsChartsForConstantColumns) {
  ReportedRun run = run_of("a", 3, 1);
  add_column(run, "peak_memory_bytes", {2e9, 2e9});
  add_column(run, "learning_rate", {0.5, 0.25});
  add_column(run, "validation_accuracy", {50});
  add_column(run, "grad_norm", {1, std::nan("")});
  std::vector<ReportedRun> runs;
  runs.push_back(std::move(run));
  const std::string page = report_page(std::move(runs), 0, library);
  const auto data = data_of(page);
  std::vector<std::string> columns;
  for (const auto& chart : data["charts"]) columns.push_back(chart["columns"][0]);
  EXPECT_EQ(
      columns,
      (std::vector<std::string>{"loss", "validation_accuracy", "learning_rate", "grad_norm"}));
  EXPECT_EQ(count(page, "<figure>"), 4U);
  EXPECT_NE(page.find("2 <small>at step 5; constant</small>"), std::string::npos);
}

TEST(ReportPage, ShowsClassesAsTableRows) {
  std::vector<ReportedRun> runs;
  for (const char* const name : {"a", "b"}) runs.push_back(run_of(name, 3, 1));
  add_column(runs[0], "validation_precision/x", {10, 50});
  add_column(runs[0], "validation_f1/x", {40});
  add_column(runs[0], "validation_f1/<y>", {100. / 3});
  add_column(runs[1], "validation_f1/x", {7});
  const std::string page = report_page(std::move(runs), 0, library);
  const std::string table = page.substr(page.find("id=\"classes\""));
  const std::string rows = table.substr(0, table.find("</table>"));
  EXPECT_EQ(count(rows, "<th scope=\"col\">F1</th>"), 2U);
  EXPECT_NE(rows.find("<th scope=\"row\">x</th><td data-value=\"50\">50.00</td>"
                      "<td data-value=\"40\">40.00</td><td></td><td data-value=\"7\">7.00</td>"),
            std::string::npos)
      << rows;
  EXPECT_NE(rows.find("&lt;y&gt;</th><td></td>"), std::string::npos);
  const auto data = data_of(page);
  EXPECT_EQ(data["charts"].size(), 1U);
  EXPECT_EQ(data["runs"][0]["columns"].size(), 1U);
  EXPECT_EQ(page.find("data-column=\"validation_f1/x\""), std::string::npos);
}

TEST(ReportPage, EscapesTextFromRuns) {
  const std::string bad = "</script><script>alert(1)</script>";
  ReportedRun run = run_of(bad, 3, 1);
  run.metrics.series.column("validation_loss:" + bad);
  run.metrics.series.add(1, 2);
  run.metrics.ends.push_back({.value = 2, .step = 3});
  run.metrics.texts = {{"sample" + bad, 3, bad}};
  run.configuration = {{"data.train" + bad, bad}};
  run.warnings = {bad};
  run.state = bad;
  ChartLibrary strange = library;
  strange.license = bad;
  std::vector<ReportedRun> runs;
  runs.push_back(std::move(run));
  const std::string page = report_page(std::move(runs), 0, strange);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(count(page, "<script"), 3U);
  EXPECT_EQ(count(page, "</script>"), 3U);
  EXPECT_EQ(data_of(page)["runs"][0]["name"], bad);
}

TEST(ReportPage, TitleShowsRunsStepsAndTime) {
  std::vector<ReportedRun> runs;
  for (const char* const name : {"a", "b", "c", "d", "e"}) runs.push_back(run_of(name, 1234, 1));
  const std::string page = report_page(std::move(runs), 86400, library);
  EXPECT_NE(page.find("<title>a (step 1,234), b (step 1,234), c (step 1,234) and 2 more, "
                      "1970-01-02 00:00 UTC</title>"),
            std::string::npos);
  EXPECT_NE(page.find("a licence &amp; more"), std::string::npos);
  EXPECT_NE(page.find("var drawing;"), std::string::npos);
}

TEST(ReportPage, ComparesConfigurationsByKey) {
  std::vector<ReportedRun> runs;
  for (const char* const name : {"a", "b"}) runs.push_back(run_of(name, 2, 1));
  runs[0].configuration = {{"model.hidden_size", "16"}, {"run.seed", "1"}, {"only.a", ""}};
  runs[1].configuration = {{"model.hidden_size", "32"}, {"run.seed", "1"}};
  const std::string page = report_page(std::move(runs), 0, library);
  const std::string table = page.substr(page.find("id=\"differences\""));
  const std::string rows = table.substr(0, table.find("</table>"));
  EXPECT_NE(rows.find("model.hidden_size</th><td>16</td><td>32</td>"), std::string::npos) << rows;
  EXPECT_NE(rows.find("only.a"), std::string::npos);
  EXPECT_EQ(rows.find("run.seed"), std::string::npos);
}

TEST(ReportPage, EmbedsSeries) {
  std::vector<ReportedRun> runs;
  runs.push_back(run_of("a", 3, 1));
  runs[0].metrics.series.column("validation_loss");
  runs[0].metrics.series.add(1, 0.25);
  runs[0].metrics.series.add(0, std::nan(""));
  runs[0].metrics.series.begin({4, 4e6, 5});
  runs[0].metrics.series.add(0, std::nan(""));
  runs[0].metrics.ends.resize(2);
  const auto data = data_of(report_page(std::move(runs), 0, library));
  const auto& run = data["runs"][0];
  EXPECT_EQ(run["step"], (std::vector<int>{1, 2, 3, 4}));
  const auto& loss = run["columns"]["loss"];
  EXPECT_TRUE(loss["mean"][3].is_null());
  EXPECT_FALSE(loss.contains("at"));
  EXPECT_FALSE(loss.contains("most"));
  EXPECT_EQ(run["columns"]["validation_loss"]["at"], std::vector<int>{2});
  EXPECT_EQ(run["columns"]["validation_loss"]["mean"], std::vector<double>{0.25});
  EXPECT_EQ(data["charts"][0]["columns"], (std::vector<std::string>{"loss", "validation_loss"}));
}

TEST(ReportPage, StaysBelowFiveMegabytes) {
  for (const auto& [count_of_runs, columns] : {std::pair{3, std::size_t{15}},
                                               std::pair{3, std::size_t{200}},
                                               std::pair{20, std::size_t{100}}}) {
    std::vector<ReportedRun> runs;
    for (int i = 0; i < count_of_runs; ++i)
      runs.push_back(run_of("run" + std::to_string(i), 5000, columns));
    EXPECT_LT(report_page(std::move(runs), 0, library).size(), 4'850'000U) << columns;
  }
}

}  // namespace
}  // namespace longspan::report_page_test
