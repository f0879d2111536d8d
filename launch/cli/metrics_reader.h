// What a run has logged of its steps, read while it may still write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longspan {

// One line of metrics.jsonl: its members by name, in their order, without lists and objects. "step"
// is a whole number from 0 on.
using MetricsLine = nlohmann::ordered_json;

// Some of a file of metrics. A last line that is still being written is not in it.
struct MetricsPart {
  std::vector<MetricsLine> lines;  // oldest first
  std::int64_t end = 0;            // bytes up to the end of the last whole line
  std::string trouble = {};  // what is there beside lines of metrics, as a sentence; "": nothing
};

// None of these throws for what is wrong with the file. One that is not there has no lines.
//
// The newest lines, `count` of them where there are so many.
MetricsPart newest_metrics(const std::filesystem::path& file, std::size_t count);
// The newest line that has a figure of validation, if there is one in the last 32 MiB, as the only
// line.
MetricsPart newest_validation(const std::filesystem::path& file);
// The lines from a byte on, which is the first of a line.
MetricsPart metrics_from(const std::filesystem::path& file, std::int64_t begin);

// A member as text of at most `digits` significant digits: of a number, or why there is none
// ("nan", "inf", "-inf"); "" where the line has no such member.
std::string format_metric(const MetricsLine& line, const std::string& name, int digits = 5);
// The figure of validation that comes first in the line, which is the one that says how good the
// model is: "validation_loss", "validation_reward"; "" where there is none.
std::string validation_name(const MetricsLine& line);

}  // namespace longspan
