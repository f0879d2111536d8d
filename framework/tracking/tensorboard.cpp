#include <system_error>

#include "framework/core/error.h"
#include "framework/tracking/event_file.h"
#include "framework/tracking/sinks.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

// Truncates the directory's events of later steps and returns the path of the new file.
fs::path place_of_events(const fs::path& folder, const TrackedRun& run) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Failure("{}: cannot be created: {}", folder.string(), error.message());
  truncate_events(folder, run.first_step);
  return folder / next_event_file(folder, static_cast<std::int64_t>(seconds_of_the_clock()));
}

// Returns the text as a Markdown code block, whatever it contains.
std::string as_code(const std::string& text) {
  std::string block = "    ";
  for (const char letter : text) {
    block += letter;
    if (letter == '\n') block += "    ";
  }
  return block;
}

}  // namespace

TensorBoardFiles::TensorBoardFiles(const fs::path& folder, const TrackedRun& run)
    : file_(place_of_events(folder, run)) {
  const EventTime now = {seconds_of_the_clock(), run.first_step + 1};
  file_.write(version_event(now.seconds));
  file_.write(session_start_event(now));
  file_.write(text_event(now, "configuration", as_code(run.configuration)));
  file_.write(hyper_parameters_event(now, run.keys, run.id));
}

void TensorBoardFiles::write(const MetricsRecord& record) { file_.write(record_event(record)); }

}  // namespace longspan
