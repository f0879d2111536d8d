#include "framework/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

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

// In the order of the page.
constexpr std::array known_columns = {
    Known{"loss", "Loss", "nats"},
    Known{"learning_rate", "Learning rate", ""},
    Known{"gradient_norm", "Norm of the gradient, before clipping", ""},
    Known{"tokens_per_second", "Throughput", "tokens a second"},
    Known{"model_flops_utilisation", "Utilisation", "percent of the measured peak", 100},
    Known{"peak_memory_bytes", "Memory of the rank that needs most", "GB", 1e-9},
    Known{"step_seconds", "Time of a step", "seconds"},
    Known{computing_seconds, "computing", "seconds"},
    Known{"waiting_seconds", "waiting", "seconds"},
    Known{"reading_seconds", "reading", "seconds"},
    Known{"saving_seconds", "saving", "seconds"},
    Known{"validating_seconds", "validating", "seconds"},
    Known{"loss_scale", "Scale of the loss", ""},
    Known{"reconstruction_error", "Error of rebuilt streams", "of their size"},
    Known{"span_mean", "Spans of heads, the mean", "keys"},
    Known{"span_longest", "Spans of heads, the longest", "keys"},
    Known{"steps_mean", "Steps of a position, the mean", "steps of pondering"},
    Known{"steps_largest", "Steps of a position, the most", "steps of pondering"},
    Known{"encoder_steps_mean", "Steps of a source's position, the mean", "steps of pondering"},
    Known{"encoder_steps_largest", "Steps of a source's position, the most", "steps of pondering"},
    Known{"decoder_steps_mean", "Steps of a target's position, the mean", "steps of pondering"},
    Known{"decoder_steps_largest", "Steps of a target's position, the most", "steps of pondering"},
};

// What is drawn into the chart of another column, dashed.
struct Companion {
  std::string_view column;
  std::string_view dashed;
  std::string_view words;
};
constexpr std::array companions = {
    Companion{"loss", "validation_loss", "dashed: of the validation"},
    Companion{"span_mean", "span_longest", "dashed: the longest"},
    Companion{"steps_mean", "steps_largest", "dashed: the most"},
    Companion{"encoder_steps_mean", "encoder_steps_largest", "dashed: the most"},
    Companion{"decoder_steps_mean", "decoder_steps_largest", "dashed: the most"},
};

// Units of validations' figures; those of classes and files are named after them ("f1/PERSON",
// "loss:FILE").
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> units = {{
    {"loss", "nats"},
    {"bits_per_byte", "bits a byte"},
    {"bits_per_dimension", "bits a value"},
    {"reward", "an episode"},
    {"entropy", "nats an action"},
}};
constexpr std::array<std::string_view, 4> percents = {"accuracy", "bleu", "success", "exact_match"};
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

// "ponder_steps_mean" -> "ponder steps mean".
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

// What a time is divided into has no chart of its own.
bool is_part_of_step(std::string_view name) {
  return name.ends_with("_seconds") && name != "step_seconds" && known(name) != nullptr;
}

// Where a column's chart stands: known ones first, validations, other losses, the rest.
std::size_t rank_of(std::string_view name) {
  if (const Known* one = known(name)) {
    const auto place = static_cast<std::size_t>(one - known_columns.data());
    return place == 0 ? 0 : 2 + place;  // validations come after the loss
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

// Of each step, from the bottom to the top.
std::optional<Chart> division_of(std::span<const std::string> columns) {
  Chart chart = {.title = "Where the time of a step goes", .unit = "seconds", .columns = {}};
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

}  // namespace longspan
