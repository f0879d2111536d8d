// Reads the metrics of a run that may still be training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// One line of metrics.jsonl: its scalar members by name, in order. "step" is an integer of at least
// 0.
using MetricsLine = nlohmann::ordered_json;

// Part of a metrics file, without a last line that is still being written.
struct MetricsPart {
  std::vector<MetricsLine> lines;  // oldest first
  std::int64_t end = 0;            // bytes up to the end of the last complete line
  std::string trouble = {};        // message about other content than metrics lines; "": none
};

// These functions do not throw for an invalid file. A missing file has no lines.
//
// Returns the newest `count` lines, or fewer if there are fewer.
MetricsPart newest_metrics(const std::filesystem::path& file, std::size_t count);
// Returns the newest line with a validation metric, as the only line, if the last 32 MiB contain
// one.
MetricsPart newest_validation(const std::filesystem::path& file);
// Returns the lines from byte `begin`, the first byte of a line.
MetricsPart metrics_from(const std::filesystem::path& file, std::int64_t begin);

// Formats a member with at most `digits` significant digits, or "nan", "inf" or "-inf". Returns ""
// if the line lacks the member.
std::string format_metric(const MetricsLine& line, const std::string& name, int digits = 5);
// As format_metric, with the text of a finite number that is no integer.
std::string format_metric(const MetricsLine& line,
                          const std::string& name,
                          const std::function<std::string(double)>& text);
// Returns whether a member is a validation metric: "validation_loss", not "validation_seconds".
bool is_validation_metric(std::string_view name);
// Returns the first validation metric of the line, its primary quality metric. Examples:
// "validation_loss", "validation_episode_reward_mean". Returns "" if there is none.
std::string validation_name(const MetricsLine& line);

}  // namespace longspan
