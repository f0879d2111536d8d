// Progress of a run: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "framework/core/error.h"
#include "framework/data/progress.h"
#include "framework/trainer/trainer.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/stop_request.h"

namespace longspan {

struct ProgressState {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping
  double tokens_per_second = 0;
  std::optional<double> utilization = {};  // MFU, of the measured peak, 0 to 1
  std::optional<double> seconds_left = {};
};

// "1h02m", "3m05s", "12s".
std::string duration_text(double seconds);
// "950", "12.3k", "4.56M".
std::string count_text(double count);

// Returns a bar and the metrics in at most `width` columns. If they do not fit, it drops the
// learning rate and the gradient norm, then metrics from the right.
std::string progress_bar(const ProgressState& state, int width);
// Returns the same metrics as a log line.
std::string progress_line(const ProgressState& state);
// "Step 3: backward pass, chunk 12 of 256".
std::string chunk_text(const ChunkProgress& progress, std::int64_t step);

class Progress {
 public:
  Progress() = default;  // silent
  // `kind`: automatic selects the bar if the console ends at a terminal.
  Progress(const Console& console, const Log& log, ConsoleKind kind);

  // Call after each step. Draws the bar at most ten times a second. Writes a line if the step
  // `is_logged` or is the last: with a bar, only to the log's file.
  void update(const ProgressState& state, bool is_logged);
  // Shows the progress within a long step: on the bar at most ten times a second, otherwise in a
  // line at most once a minute.
  void update_step(const std::string& text);
  // Removes the bar.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  Console console_;
  Log log_;
  bool has_bar_ = false;
  std::optional<Clock::time_point> drawn_;
  Clock::time_point changed_ = Clock::now();  // the last line or step
};

// Reading of long files before the first step: progress messages and stop requests.

using StoppedError = ErrorOf<ExitCode::stopped>;

// "reading corpus.txt: 12% of 50.0 GB".
std::string reading_text(const ScanProgress& progress);

// Reports the progress at most once every `seconds`, and each note at once.
ProgressCallback throttled_progress(std::function<void(const std::string&)> say,
                                    double seconds = 3);

// Logs the progress of a run's reads. Throws StoppedError, whose exit code requests a restart, as
// soon as this process is asked to stop, as there is nothing to save yet. The other ranks then end
// too. Both arguments must outlive the callback.
ProgressCallback reading(const StopRequest& stop, const Log& log);

// Throws Failure if reading takes longer than `seconds`: for optional information.
ProgressCallback with_time_limit(double seconds);

}  // namespace longspan
