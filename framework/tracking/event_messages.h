// TensorBoard's event messages in protocol buffer wire format. Field numbers are from event.proto
// and summary.proto of TensorBoard, and from plugin_data.proto of its hyperparameter plugin.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "framework/tracking/metrics_record.h"

namespace longspan {

// Time and step of an event.
struct EventTime {
  double seconds = 0;  // since 1970
  std::int64_t step = 0;
};

// Returns the first event of a file.
std::string version_event(double seconds);

// Returns the start of a session at that step: a reader discards earlier events of this and later
// steps. Readers ignore it in the first session of a run.
std::string session_start_event(const EventTime& time);

// Returns the numbers, histograms and images of a record.
std::string record_event(const MetricsRecord& record);

// Returns Markdown text under a tag.
std::string text_event(const EventTime& time, const std::string& tag, const std::string& markdown);

// Returns the keys of a configuration for the hyperparameter table. Numbers and booleans keep their
// type.
std::string hyper_parameters_event(const EventTime& time,
                                   const std::map<std::string, std::string>& keys,
                                   const std::string& run_id);

// Returns the step of an event; nothing for invalid bytes.
std::optional<std::int64_t> step_of_event(std::string_view event);

}  // namespace longspan
