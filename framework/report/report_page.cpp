#include "framework/report/report_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "framework/report/page_text.h"

namespace longspan {
namespace {

using Runs = std::vector<ReportedRun>;

constexpr std::size_t max_named = 3;  // runs in the title

std::string title_of(const Runs& runs, const std::string& date) {
  std::string names;
  for (std::size_t i = 0; i < std::min(runs.size(), max_named); ++i)
    names += fmt::format(
        "{}{} (step {})", i == 0 ? "" : ", ", runs[i].name, grouped(runs[i].metrics.step));
  if (runs.size() > max_named) names += fmt::format(" and {} more", runs.size() - max_named);
  return fmt::format("{}, {} UTC", names, date);
}

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }

// A run's name with the color of its curves, which the script sets.
std::string run_heading(const Runs& runs, std::size_t run) {
  return fmt::format(R"(<th scope="col"><span class="color" data-run="{}"></span>{}</th>)",
                     run,
                     html(runs[run].name));
}

std::string headings(const Runs& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) text += run_heading(runs, i);
  return text;
}

std::string runs_table(const Runs& runs) {
  std::string text =
      "<table id=\"runs\"><thead><tr><th>run</th><th>state</th><th>step</th><th>tokens</th>"
      "<th>training time</th><th>lines of metrics</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunMetrics& metrics = runs[i].metrics;
    std::string step = grouped(metrics.step);
    if (runs[i].steps) step += " of " + grouped(*runs[i].steps);
    std::string lines = grouped(metrics.lines);
    if (metrics.repeated > 0)
      lines += fmt::format(", and {} of recomputed steps", grouped(metrics.repeated));
    text += fmt::format(
        "<tr><th scope=\"row\"><label><input type=\"checkbox\" checked data-run=\"{}\">"
        "<span class=\"color\" data-run=\"{}\"></span>{}</label></th>{}{}{}{}{}</tr>\n",
        i,
        i,
        html(runs[i].name),
        cell(html(runs[i].state)),
        cell(step),
        cell(counted_text(metrics.tokens)),
        cell(metrics.seconds > 0 ? time_text(metrics.seconds) : "not logged"),
        cell(lines));
  }
  return text + "</tbody></table>\n";
}

// Returns the table cell of one run's column.
std::string last_value(const ReportedRun& run, const std::string& column, double factor) {
  const auto number = run.metrics.series.find(column);
  if (!number) return "<td></td>";
  const ColumnEnd& end = run.metrics.ends[*number];
  std::string shown = end.step < 0 ? "" : short_number(end.value * factor);
  std::string note;
  if (!end.reason_of_last.empty())
    note = "now " + end.reason_of_last;
  else if (end.step != run.metrics.step)
    note = fmt::format("at step {}", grouped(end.step));
  if (is_constant(run, column)) note += note.empty() ? "constant" : "; constant";
  if (end.gaps > 0)
    note += fmt::format("{}{} non-finite, first at step {}",
                        note.empty() ? "" : "; ",
                        grouped(end.gaps),
                        grouped(end.first_gap));
  if (!note.empty()) shown += fmt::format(" <small>{}</small>", html(note));
  return fmt::format(
      "<td data-value=\"{}\">{}</td>", end.step < 0 ? "" : fmt::format("{}", end.value), shown);
}

std::string last_values(const Runs& runs) {
  std::string text =
      "<h2>Last values</h2>\n<table id=\"last-values\"><thead><tr><th>metric</th>"
      "<th>unit</th>" +
      headings(runs) + "</tr></thead><tbody>\n";
  std::set<std::string> told;
  for (const Chart& chart : charts_of(columns_of(runs))) {
    for (const std::string& column : chart.columns) {
      if (!told.insert(column).second) continue;
      const ColumnText words = text_of_column(column);
      text += fmt::format("<tr data-column=\"{}\"><th scope=\"row\">{}</th>{}",
                          html(column),
                          html(words.title),
                          cell(html(words.unit)));
      for (const ReportedRun& run : runs) text += last_value(run, column, words.factor);
      text += "</tr>\n";
    }
  }
  return text + "</tbody></table>\n";
}

// Returns one run's metrics of one class at the last validation.
std::string class_values(const ReportedRun& run,
                         const std::string& name,
                         const std::vector<std::string>& figures) {
  std::string text;
  for (const std::string& figure : figures) {
    const auto number = run.metrics.series.find("validation_" + figure + "/" + name);
    const bool has_value = number && run.metrics.ends[*number].step >= 0;
    const double value = has_value ? run.metrics.ends[*number].value : 0;
    text += has_value ? fmt::format("<td data-value=\"{}\">{:.2f}</td>", value, value) : cell("");
  }
  return text;
}

// Precision, recall and F1 of each class as a table, since charts would be too many.
std::string classes(const Runs& runs) {
  std::vector<std::string> names, figures;
  std::set<std::string> visited_names, visited_metrics;
  for (const std::string& column : columns_of(runs)) {
    const auto found = class_column_of(column);
    if (!found) continue;
    if (visited_names.insert(found->name).second) names.push_back(found->name);
    if (visited_metrics.insert(found->figure).second) figures.push_back(found->figure);
  }
  if (names.empty()) return "";
  std::string of_runs, of_figures;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    of_runs += fmt::format(
        R"(<th scope="colgroup" colspan="{}"><span class="color" data-run="{}"></span>{}</th>)",
        figures.size(),
        i,
        html(runs[i].name));
    for (const std::string& figure : figures)
      of_figures += fmt::format(R"(<th scope="col">{}</th>)",
                                figure == "f1" ? std::string("F1") : html(figure));
  }
  std::string text = fmt::format(
      "<h2>Validation by class <small>percent, at the last validation</small></h2>\n"
      "<table id=\"classes\"><thead><tr><th rowspan=\"2\">class</th>{}</tr><tr>{}</tr></thead>"
      "<tbody>\n",
      of_runs,
      of_figures);
  for (const std::string& name : names) {
    text += fmt::format("<tr><th scope=\"row\">{}</th>", html(name));
    for (const ReportedRun& run : runs) text += class_values(run, name, figures);
    text += "</tr>\n";
  }
  return text + "</tbody></table>\n";
}

std::string figures(const Runs& runs, const std::vector<PlacedChart>& charts) {
  std::string text = "<section id=\"charts\">\n";
  for (std::size_t i = 0; i < charts.size(); ++i) {
    const Chart& chart = charts[i].chart;
    const std::string of_run =
        charts[i].run && runs.size() > 1 ? ": " + runs[*charts[i].run].name : "";
    text += fmt::format(
        "<figure><figcaption>{}{}</figcaption><div class=\"legend\"></div><div class=\"chart\" "
        "data-chart=\"{}\"></div></figure>\n",
        html(chart.title + of_run),
        chart.unit.empty() ? "" : fmt::format(" <small>{}</small>", html(chart.unit)),
        i);
  }
  return text + "</section>\n";
}

// A row per key; a run without the key has an empty cell.
std::string keys_table(const Runs& runs, const std::set<std::string>& keys, const char* id) {
  std::string text = fmt::format(
      "<table id=\"{}\"><thead><tr><th>key</th>{}</tr></thead><tbody>\n", id, headings(runs));
  for (const std::string& key : keys) {
    text += fmt::format("<tr><th scope=\"row\">{}</th>", html(key));
    for (const ReportedRun& run : runs) {
      const auto found = run.configuration.find(key);
      text += cell(found == run.configuration.end() ? "" : html(found->second));
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table>\n";
}

std::string configurations(const Runs& runs) {
  std::set<std::string> keys;
  for (const ReportedRun& run : runs)
    for (const auto& [key, value] : run.configuration) keys.insert(key);
  std::set<std::string> differing;
  for (const std::string& key : keys) {
    const auto value_of = [&](const ReportedRun& run) -> const std::string* {
      const auto found = run.configuration.find(key);
      return found == run.configuration.end() ? nullptr : &found->second;
    };
    const std::string* const first = value_of(runs.front());
    const bool is_same = std::ranges::all_of(runs, [&](const ReportedRun& run) {
      const std::string* const value = value_of(run);
      return value == nullptr || first == nullptr ? value == first : *value == *first;
    });
    if (!is_same) differing.insert(key);
  }
  std::string text;
  if (runs.size() > 1)
    text += "<h2>Config differences</h2>\n" + (differing.empty()
                                                   ? std::string("<p>None.</p>\n")
                                                   : keys_table(runs, differing, "differences"));
  if (!keys.empty())
    text += fmt::format(
        "<details><summary>All {} config keys</summary>\n{}"
        "</details>\n",
        keys.size(),
        keys_table(runs, keys, "configuration"));
  return text;
}

std::string texts(const Runs& runs) {
  std::string text;
  for (const ReportedRun& run : runs)
    for (const MetricText& one : run.metrics.texts)
      text += fmt::format("<h3>{}, step {}: {}</h3>\n<pre>{}</pre>\n",
                          html(run.name),
                          grouped(one.step),
                          html(one.name),
                          html(one.text));
  return text.empty() ? "" : "<h2>Texts</h2>\n<section id=\"texts\">\n" + text + "</section>\n";
}

std::string warnings(const Runs& runs) {
  std::string text;
  for (const ReportedRun& run : runs) {
    if (run.warnings.empty()) continue;
    text += fmt::format("<h3>{}</h3>\n<pre>", html(run.name));
    for (const std::string& line : run.warnings) text += html(line) + "\n";
    text += "</pre>\n";
  }
  return text.empty() ? ""
                      : "<h2>Warnings and errors in the log</h2>\n<section id=\"warnings\">\n" +
                            text + "</section>\n";
}

constexpr const char* controls =
    "<form id=\"controls\"><label>x axis <select id=\"axis\"><option value=\"step\">steps</option>"
    "<option value=\"tokens\">tokens</option><option value=\"seconds\">time</option></select>"
    "</label> <label><input type=\"checkbox\" id=\"logarithmic\"> logarithmic</label> "
    "<label><input type=\"checkbox\" id=\"range\" checked> range</label> "
    "<small>Drag over a chart to zoom all charts, double-click to reset. A line is the mean of the "
    "steps of a point; the band is their range. Constant metrics are in the table of last "
    "values.</small></form>\n"
    "<noscript><p>Curves and samples need JavaScript; the tables do not.</p></noscript>\n";

std::string script(std::string_view text) { return fmt::format("<script>\n{}\n</script>\n", text); }

// Containers that the script fills.
std::string positions_of_samples(const Runs& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].samples.empty())
      text += fmt::format(
          "<div class=\"samples\" data-run=\"{}\"><h3>{}</h3><label>step <input type=\"range\" "
          "min=\"0\" max=\"0\" value=\"0\"> <output></output></label>"
          "<div class=\"written\"></div></div>\n",
          i,
          html(runs[i].name));
  return text.empty() ? "" : "<h2>Samples</h2>\n<section id=\"samples\">\n" + text + "</section>\n";
}

std::string places_of_attention(const Runs& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].attention.maps.empty())
      text += fmt::format(
          "<div class=\"attention\" data-run=\"{}\"><h3>{} <small>at step {}</small></h3>"
          "<label>of <select></select></label> <output></output><br><canvas></canvas></div>\n",
          i,
          html(runs[i].name),
          grouped(runs[i].attention.step));
  return text.empty()
             ? ""
             : "<h2>Attention maps</h2>\n<p><small>A row is a query token, a column a key token; a "
               "darker cell is a larger weight. Hover over a cell to read "
               "both.</small></p>\n<section id=\"attention\">\n" +
                   text + "</section>\n";
}

// The differing parts of a static and of a live page.
struct Frame {
  std::string policy;  // further content security policy
  std::string head;
  std::string status;
};

std::string full_page(const PageParts& parts, const ChartLibrary& library, const Frame& frame) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'unsafe-inline'; style-src 'unsafe-inline'{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n{}<title>{}</title>\n"
      "<style>\n{}\n{}</style>\n</head>\n<body>\n<h1>{}</h1>\n{}",
      frame.policy,
      frame.head,
      parts.title,
      library.style,
      page_style(),
      parts.title,
      frame.status);
  const auto part = [](const char* name, const std::string& text) {
    return fmt::format("<div data-part=\"{}\">\n{}</div>\n", name, text);
  };
  page += part("runs", parts.runs) + controls + part("figures", parts.charts) +
          part("samples", parts.samples) + part("attention", parts.attention) +
          part("tables", parts.tables);
  page += fmt::format(
      "<footer><details><summary>Curves are drawn by {}</summary><pre>{}</pre></details></footer>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n",
      html(library.name),
      html(library.license),
      parts.data);
  page += script(library.script) + script(page_script());
  return page + "</body>\n</html>\n";
}

}  // namespace

PageParts page_parts(Runs runs, std::int64_t made_at) {
  thin_for_page(runs);
  const std::vector<PlacedChart> charts = placed_charts(runs);
  return {.title = html(title_of(runs, fmt::format("{:%Y-%m-%d %H:%M}", fmt::gmtime(made_at)))),
          .runs = runs_table(runs),
          .charts = figures(runs, charts),
          .samples = positions_of_samples(runs),
          .attention = places_of_attention(runs),
          .tables = last_values(runs) + classes(runs) + configurations(runs) + texts(runs) +
                    warnings(runs),
          .data = page_data(runs, charts)};
}

std::string report_page(const PageParts& parts, const ChartLibrary& library) {
  return full_page(parts, library, {});
}

std::string report_page(Runs runs, std::int64_t made_at, const ChartLibrary& library) {
  return report_page(page_parts(std::move(runs), made_at), library);
}

std::string live_page(const PageParts& parts,
                      const ChartLibrary& library,
                      const std::string& version) {
  return full_page(parts,
                   library,
                   {.policy = "; connect-src 'self'; img-src data:",
                    .head = "<link rel=\"icon\" href=\"data:,\">\n",
                    .status = fmt::format("<p id=\"watching\" role=\"status\" data-version=\"{}\">"
                                          "Live.</p>\n",
                                          html(version))});
}

std::string page_update(const PageParts& parts) {
  return fmt::format(
      "{{\"title\":{},\"runs\":{},\"figures\":{},\"samples\":{},\"attention\":{},\"tables\":{},"
      "\"data\":{}}}",
      script_string(parts.title),
      script_string(parts.runs),
      script_string(parts.charts),
      script_string(parts.samples),
      script_string(parts.attention),
      script_string(parts.tables),
      parts.data);
}

}  // namespace longspan
