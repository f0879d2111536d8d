#include "framework/training_loop/reading_progress.h"

#include <algorithm>
#include <memory>

#include "framework/core/byte_text.h"
#include "framework/core/stopwatch.h"

namespace longspan {
namespace {

std::string share_text(const ScanProgress& progress) {
  const auto size = static_cast<double>(progress.size);
  if (progress.size <= 0) return format_bytes(0);
  // A file may grow while it is read.
  const double share = std::min(1.0, static_cast<double>(progress.done) / size);
  return fmt::format("{:.0f}% of {}", 100 * share, format_bytes(size));
}

}  // namespace

std::string reading_text(const ScanProgress& progress) {
  return fmt::format("Reading {}: {}", progress.path, share_text(progress));
}

ProgressCallback throttled_progress(std::function<void(const std::string&)> say, double seconds) {
  return [say = std::move(say), seconds, stopwatch = Stopwatch()](
             const ScanProgress& progress) mutable {
    if (!progress.note.empty()) return say(progress.note);
    if (stopwatch.seconds() < seconds) return;
    stopwatch = Stopwatch();
    say(reading_text(progress));
  };
}

ProgressCallback reading(const StopRequest& stop, const Log& log) {
  return [&stop, say = throttled_progress([&log](const std::string& text) {
                   log.info("{}", text);
                 })](const ScanProgress& progress) {
    if (stop.requested())
      throw StoppedError(
          "stopped as requested while reading {} ({}), before the first step: "
          "nothing to save; run the same command to restart",
          progress.path,
          share_text(progress));
    say(progress);
  };
}

ProgressCallback with_time_limit(double seconds) {
  return [seconds, stopwatch = Stopwatch()](const ScanProgress& progress) {
    if (stopwatch.seconds() > seconds)
      throw Failure("{}: reading timed out after {} s", progress.path, seconds);
  };
}

}  // namespace longspan
