#include "framework/tracking/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace longspan {
namespace {

// A name may include a file name, so it is escaped.
std::string json_text(std::string_view name) {
  return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string text_of(std::int64_t value) { return fmt::format("{}", value); }

// Formats a finite number.
std::string text_of(double value) {
  std::string text = fmt::format("{}", value);
  // Keeps the number a float for readers: as an integer, -0 would lose its sign.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool is_finite(const MetricField& field) { return std::isfinite(number_of(field)); }

std::string text_of(const MetricField& field) {
  return std::visit([](auto value) { return text_of(value); }, field.value);
}

// Formats the value for W&B and MLflow.
std::string value_of(const MetricField& field) {
  if (is_finite(field)) return text_of(field);
  const double value = number_of(field);
  return std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

std::string member_of(const MetricField& field) {
  const std::string name = column_of(field);
  if (is_finite(field)) return fmt::format("{}: {}", json_text(name), text_of(field));
  const double value = number_of(field);
  const char* reason = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return fmt::format("{}: null, {}: \"{}\"", json_text(name), json_text(name + "_reason"), reason);
}

std::string sample_lines_of(const MetricsRecord& record) {
  std::string lines;
  for (std::size_t i = 0; i < record.texts.size(); ++i)
    lines += fmt::format(
        "{{\"step\": {}, \"sample\": {}, \"input\": {}, \"output\": {}, \"reference\": {}}}\n",
        record.step,
        i,
        json_text(record.texts[i].input),
        json_text(record.texts[i].output),
        json_text(record.texts[i].reference));
  return lines;
}

std::string wandb_line(const MetricsRecord& record) {
  std::string line =
      fmt::format("{{\"_step\": {}, \"_timestamp\": {:.3f}", record.step, record.time);
  for (const MetricField& field : record.fields)
    line += fmt::format(", {}: {}", json_text(tag_of(field)), value_of(field));
  return line + "}\n";
}

// MLflow allows letters, digits and "_-. /" in a key. The key must also be a path without empty,
// "." or ".." components, which names of validated files may have. It allows letters of all
// scripts, but not all non-ASCII characters, such as dashes. Those and invalid UTF-8 become their
// bytes in hexadecimal.
std::string allowed_in_key(std::string_view tag) {
  std::string key;
  for (const char letter : tag) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x80)
      key += fmt::format("_{:02x}", byte);
    else if (std::isalnum(byte) != 0 ||
             std::string_view("_-. /").find(letter) != std::string_view::npos)
      key += letter;
    else
      key += '_';
  }
  return key;
}

std::string mlflow_key(std::string_view tag) {
  constexpr std::size_t longest = 250;
  const std::string allowed = allowed_in_key(tag);
  std::string key;
  for (std::size_t begin = 0; begin <= allowed.size();) {
    const std::size_t end = std::min(allowed.find('/', begin), allowed.size());
    std::string part = allowed.substr(begin, end - begin);
    if (part == "." || part == "..") part.assign(part.size(), '_');
    if (!part.empty()) key += (key.empty() ? "" : "/") + part;
    begin = end + 1;
  }
  if (key.size() <= longest) return key;
  // The beginning and the end identify it: file names differ there.
  constexpr std::size_t kept = 40;
  return key.substr(0, kept) + "_" + key.substr(key.size() - (longest - kept - 1));
}

std::string mlflow_lines_of(const MetricsRecord& record) {
  std::string lines;
  for (const MetricField& field : record.fields)
    lines += fmt::format("{{\"key\": {}, \"value\": {}, \"timestamp\": {:.0f}, \"step\": {}}}\n",
                         json_text(mlflow_key(tag_of(field))),
                         value_of(field),
                         1000 * record.time,
                         record.step);
  return lines;
}

}  // namespace

std::string json_line(const MetricsRecord& record) {
  std::string line = fmt::format("{{\"step\": {}", record.step);
  for (const MetricField& field : record.fields) line += ", " + member_of(field);
  return line + "}";
}

JsonlFormat metrics_lines() {
  return {.begin = "{\"step\": ",
          .step_key = "step",
          .loss_key = "loss",
          .norm_key = "grad_norm",
          .lines = [](const MetricsRecord& record) { return json_line(record) + "\n"; }};
}

JsonlFormat samples_lines() {
  return {.begin = "{\"step\": ",
          .step_key = "step",
          .text_key = "output",
          .a_line = "a sample",
          .lines = sample_lines_of};
}

JsonlFormat wandb_lines() {
  return {.begin = "{\"_step\": ", .step_key = "_step", .lines = wandb_line};
}

JsonlFormat mlflow_lines() {
  return {.begin = "{\"key\": ", .step_key = "step", .lines = mlflow_lines_of};
}

}  // namespace longspan
