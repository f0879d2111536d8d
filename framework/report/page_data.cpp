#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "framework/report/page_text.h"
#include "framework/report/report_page.h"

namespace longspan {
namespace {

constexpr std::size_t max_data_bytes = 3'200'000;
constexpr std::size_t bytes_of_cell = 40;  // three numbers of twelve characters, and commas
constexpr std::size_t fewest_buckets = 32;
constexpr std::size_t max_sample_bytes = 400'000;
constexpr std::size_t max_map_bytes = 400'000;

template <typename Values, typename Write>
std::string list_of(const Values& values, const Write& write) {
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ',';
    text += write(value);
  }
  return text + "]";
}

std::string column_data(const std::vector<Cell>& cells, std::size_t buckets) {
  std::vector<std::size_t> at;
  std::vector<Cell> found;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].is_empty()) continue;
    at.push_back(i);
    found.push_back(cells[i]);
  }
  const auto value = [](const Cell& cell, double number) -> std::string {
    return cell.count == 0 || !std::isfinite(number) ? "null" : short_number(number);
  };
  std::string text = "{\"mean\":" + list_of(found, [&](const Cell& cell) {
                       return value(cell, cell.count == 0 ? 0 : cell.mean());
                     });
  const bool has_range =
      std::ranges::any_of(found, [](const Cell& cell) { return cell.least != cell.most; });
  if (has_range) {
    text += ",\"least\":" + list_of(found, [&](const Cell& c) { return value(c, c.least); });
    text += ",\"most\":" + list_of(found, [&](const Cell& c) { return value(c, c.most); });
  }
  if (found.size() < buckets)
    text += ",\"at\":" + list_of(at, [](std::size_t place) { return fmt::to_string(place); });
  return text + "}";
}

std::string run_data(const ReportedRun& run, std::size_t max_bytes_of_maps) {
  const DownsampledSeries& series = run.metrics.series;
  const auto& buckets = series.buckets();
  std::string text = fmt::format(
      "{{\"name\":{},\"samples\":{},\"attention\":{},\"step\":{},\"tokens\":{},\"seconds\":{},"
      "\"columns\":{{",
      script_string(run.name),
      samples_data(run.samples),
      attention_data(run.attention, max_bytes_of_maps),
      list_of(buckets, [](const Bucket& bucket) { return fmt::to_string(bucket.step); }),
      list_of(buckets, [](const Bucket& bucket) { return fmt::format("{:.9g}", bucket.tokens); }),
      run.metrics.seconds > 0
          ? list_of(buckets,
                    [](const Bucket& bucket) { return fmt::format("{:.9g}", bucket.seconds); })
          : "null");
  const char* separator = "";
  for (std::size_t i = 0; i < series.names().size(); ++i) {
    if (class_column_of(series.names()[i])) continue;
    text += fmt::format("{}{}:{}",
                        separator,
                        script_string(series.names()[i]),
                        column_data(series.cells(i), buckets.size()));
    separator = ",";
  }
  return text + "}}";
}

std::string chart_data(const PlacedChart& placed) {
  const Chart& chart = placed.chart;
  return fmt::format(
      "{{\"label\":{},\"factor\":{},\"columns\":{},\"names\":{},\"stacked\":{},\"run\":{}}}",
      script_string(chart.unit.empty() ? chart.title : chart.unit),
      chart.factor,
      list_of(chart.columns, script_string),
      list_of(chart.columns,
              [](const std::string& name) { return script_string(text_of_column(name).title); }),
      chart.is_stacked,
      placed.run ? fmt::to_string(*placed.run) : "null");
}

}  // namespace

std::vector<std::string> columns_of(std::span<const ReportedRun> runs) {
  std::vector<std::string> columns;
  std::set<std::string> seen;
  for (const ReportedRun& run : runs)
    for (const std::string& name : run.metrics.series.names())
      if (seen.insert(name).second) columns.push_back(name);
  return columns;
}

bool is_constant(const ReportedRun& run, const std::string& column) {
  const auto number = run.metrics.series.find(column);
  if (!number) return false;
  Cell all;
  for (const Cell& cell : run.metrics.series.cells(*number)) all.add(cell);
  return all.count > 1 && all.gaps == 0 && all.least == all.most;
}

std::vector<PlacedChart> placed_charts(std::span<const ReportedRun> runs) {
  const auto is_drawn = [](const Chart& chart, const ReportedRun& run) {
    return std::ranges::any_of(chart.columns, [&](const std::string& column) {
      return run.metrics.series.find(column) && (column == "loss" || !is_constant(run, column));
    });
  };
  std::vector<PlacedChart> placed;
  for (Chart& chart : charts_of(columns_of(runs))) {
    if (!chart.is_stacked) {
      const bool is_drawn_for_any =
          std::ranges::any_of(runs, [&](const ReportedRun& run) { return is_drawn(chart, run); });
      if (is_drawn_for_any) placed.push_back({std::move(chart)});
      continue;
    }
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (is_drawn(chart, runs[i])) placed.push_back({chart, i});
  }
  return placed;
}

std::string page_data(std::span<const ReportedRun> runs, std::span<const PlacedChart> charts) {
  return fmt::format(
      "{{\"runs\":{},\"charts\":{}}}",
      list_of(runs,
              [&](const ReportedRun& run) { return run_data(run, max_map_bytes / runs.size()); }),
      list_of(charts, chart_data));
}

void thin_for_page(std::span<ReportedRun> runs) {
  std::size_t columns = 0;
  for (const ReportedRun& run : runs)
    columns += 1 + static_cast<std::size_t>(std::ranges::count_if(
                       run.metrics.series.names(),
                       [](const std::string& name) { return !class_column_of(name); }));
  const std::size_t most =
      std::max(fewest_buckets, max_data_bytes / bytes_of_cell / std::max<std::size_t>(columns, 1));
  for (ReportedRun& run : runs) {
    run.metrics.series.thin_to(most);
    downsample_samples(run.samples, max_sample_bytes / runs.size());
  }
}

}  // namespace longspan
