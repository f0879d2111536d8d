#include "framework/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "embedded_page.h"
#include "framework/report/metrics_file.h"

namespace longspan {

namespace {

constexpr std::string_view validation = "validation_";

struct Known {
  std::string_view name;
  std::string_view title;
  std::string_view unit;
  double factor = 1;
};

// In page order.
constexpr std::array known_columns = {
    Known{"loss", "Loss", "nats"},
    Known{"learning_rate", "Learning rate", ""},
    Known{"grad_norm", "Gradient norm (before clipping)", ""},
    Known{"tokens_per_second", "Throughput", "tokens per second"},
    Known{"mfu", "Model FLOPs utilization", "percent of measured peak", 100},
    Known{"peak_memory_bytes", "Peak memory (maximum over ranks)", "GB", 1e-9},
    Known{"step_seconds", "Step time", "seconds"},
    Known{compute_seconds, "compute", "seconds"},
    Known{"communication_wait_seconds", "communication wait", "seconds"},
    Known{"data_loading_seconds", "data loading", "seconds"},
    Known{"checkpoint_seconds", "checkpoint", "seconds"},
    Known{"validation_seconds", "validation", "seconds"},
    Known{"loss_scale", "Loss scale", ""},
    Known{"reconstruction_error", "Reversible reconstruction error", "relative"},
    Known{"adaptive_span_mean", "Adaptive span (mean)", "keys"},
    Known{"adaptive_span_max", "Adaptive span (maximum)", "keys"},
    Known{"act_steps_mean", "Ponder steps (mean)", "ponder steps"},
    Known{"act_steps_max", "Ponder steps (maximum)", "ponder steps"},
    Known{"encoder_act_steps_mean", "Encoder ponder steps (mean)", "ponder steps"},
    Known{"encoder_act_steps_max", "Encoder ponder steps (maximum)", "ponder steps"},
    Known{"decoder_act_steps_mean", "Decoder ponder steps (mean)", "ponder steps"},
    Known{"decoder_act_steps_max", "Decoder ponder steps (maximum)", "ponder steps"},
};

// A column drawn dashed in another column's chart.
struct Companion {
  std::string_view column;
  std::string_view dashed;
  std::string_view words;
};
constexpr std::array companions = {
    Companion{"loss", "validation_loss", "dashed: validation"},
    Companion{"adaptive_span_mean", "adaptive_span_max", "dashed: maximum"},
    Companion{"act_steps_mean", "act_steps_max", "dashed: maximum"},
    Companion{"encoder_act_steps_mean", "encoder_act_steps_max", "dashed: maximum"},
    Companion{"decoder_act_steps_mean", "decoder_act_steps_max", "dashed: maximum"},
};

// Units of validation metrics; per-class and per-file metrics are named after them ("f1/PERSON",
// "loss:FILE").
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> units = {{
    {"loss", "nats"},
    {"bits_per_byte", "bits per byte"},
    {"bits_per_dim", "bits per dimension"},
    {"episode_reward_mean", "per episode"},
    {"policy_entropy", "nats per action"},
}};
constexpr std::array<std::string_view, 3> percents = {"accuracy", "bleu", "exact_match"};
constexpr std::array<std::string_view, 4> ends_of_percents = {"_rate", "f1", "precision", "recall"};

std::string_view unit_of_figure(std::string_view name) {
  const std::string_view first = name.substr(0, name.find_first_of(":/"));
  for (const auto& [known, unit] : units)
    if (known == first) return unit;
  const auto ends = [&](std::string_view end) { return first.ends_with(end); };
  const bool is_percent = std::ranges::count(percents, first) > 0 || first.starts_with("chrf") ||
                          std::ranges::any_of(ends_of_percents, ends);
  return is_percent ? "percent" : "";
}

// Maps "ponder_steps_mean" to "ponder steps mean".
std::string in_words(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

const Known* known(std::string_view name) {
  const auto found =
      std::ranges::find_if(known_columns, [&](const Known& one) { return one.name == name; });
  return found == known_columns.end() ? nullptr : found;
}

// The phases of a step share one chart.
bool is_part_of_step(std::string_view name) {
  return name.ends_with("_seconds") && name != "step_seconds" && known(name) != nullptr;
}

// Sort key of a column's chart: known ones first, validations, other losses, the rest.
std::size_t rank_of(std::string_view name) {
  if (const Known* one = known(name)) {
    const auto place = static_cast<std::size_t>(one - known_columns.data());
    return place == 0 ? 0 : 2 + place;  // validation charts come after the loss
  }
  if (name.starts_with(validation)) return 1;
  if (name.starts_with("loss_")) return 2;
  return 2 + known_columns.size();
}

Chart chart_of(const std::string& column) {
  ColumnText text = text_of_column(column);
  return {.title = std::move(text.title),
          .unit = std::move(text.unit),
          .factor = text.factor,
          .columns = {column}};
}

// The phases of each step, stacked from bottom to top.
std::optional<Chart> division_of(std::span<const std::string> columns) {
  Chart chart = {.title = "Step time by phase", .unit = "seconds", .columns = {}};
  chart.is_stacked = true;
  for (const Known& one : known_columns)
    if (is_part_of_step(one.name) && std::ranges::count(columns, one.name) > 0)
      chart.columns.emplace_back(one.name);
  if (chart.columns.empty()) return std::nullopt;
  return chart;
}

}  // namespace

ColumnText text_of_column(std::string_view name) {
  if (const Known* one = known(name))
    return {std::string(one->title), std::string(one->unit), one->factor};
  if (name.starts_with(validation)) {
    const std::string_view figure = name.substr(validation.size());
    return {"Validation: " + in_words(figure), std::string(unit_of_figure(figure))};
  }
  constexpr std::string_view loss = "loss_";
  if (name.starts_with(loss)) return {"Loss: " + in_words(name.substr(loss.size())), ""};
  return {in_words(name), ""};
}

std::optional<ClassColumn> class_column_of(std::string_view column) {
  if (!column.starts_with(validation)) return std::nullopt;
  column.remove_prefix(validation.size());
  const std::size_t cut = column.find_first_of(":/");
  if (cut == std::string_view::npos || column[cut] == ':') return std::nullopt;
  return ClassColumn{std::string(column.substr(0, cut)), std::string(column.substr(cut + 1))};
}

std::vector<Chart> charts_of(std::span<const std::string> columns) {
  std::vector<std::string> sorted;
  std::ranges::copy_if(columns, std::back_inserter(sorted), [](const std::string& name) {
    return !class_column_of(name);
  });
  std::ranges::stable_sort(sorted, {}, [](const std::string& name) { return rank_of(name); });
  const auto has = [&](std::string_view name) { return std::ranges::count(sorted, name) > 0; };
  std::vector<Chart> charts;
  for (const std::string& column : sorted) {
    if (is_part_of_step(column)) continue;
    const auto is_drawn_with_another = [&](const Companion& one) {
      return one.dashed == column && has(one.column);
    };
    if (std::ranges::any_of(companions, is_drawn_with_another)) continue;
    charts.push_back(chart_of(column));
    const auto with = std::ranges::find(companions, column, &Companion::column);
    if (with != companions.end() && has(with->dashed)) {
      charts.back().title += fmt::format("; {}", with->words);
      charts.back().columns.emplace_back(with->dashed);
    }
    if (column == "step_seconds")
      if (const auto division = division_of(sorted)) charts.push_back(*division);
  }
  return charts;
}

const ChartLibrary* chart_library() {
  static constexpr ChartLibrary library = {embedded::library_name,
                                           embedded::library_script,
                                           embedded::library_style,
                                           embedded::library_license};
  return library.script.empty() ? nullptr : &library;
}

std::string_view page_script() { return embedded::page_script; }
std::string_view page_style() { return embedded::page_style; }

}  // namespace longspan
