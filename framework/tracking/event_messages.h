// The messages that TensorBoard reads, as bytes in the wire format of protocol buffers. Which
// fields they have is said by event.proto and summary.proto of TensorBoard, and by
// plugin_data.proto of its plugin for hyper-parameters.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "framework/tracking/metrics_record.h"

namespace longspan {

// When something was told, and of which step.
struct EventTime {
  double seconds = 0;  // since 1970
  std::int64_t step = 0;
};

// The first event of a file.
std::string version_event(double seconds);

// A session begins with that step: a reader forgets what it was told before of this step and of
// later ones. Of the first session of a run readers take note alone.
std::string session_start_event(const EventTime& time);

// The numbers, histograms and images of a record.
std::string record_event(const MetricsRecord& record);

// Text in Markdown under a tag.
std::string text_event(const EventTime& time, const std::string& tag, const std::string& markdown);

// The keys of a configuration, as they are written, for the table of hyper-parameters: numbers and
// truth values as what they are.
std::string hyper_parameters_event(const EventTime& time,
                                   const std::map<std::string, std::string>& keys,
                                   const std::string& run_id);

// The step of an event; nothing where the bytes are none.
std::optional<std::int64_t> step_of_event(std::string_view event);

}  // namespace longspan
