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
  // A file that grows while it is read has no more than all of it.
  const double share = std::min(1.0, static_cast<double>(progress.done) / size);
  return fmt::format("{:.0f}% of {}", 100 * share, format_bytes(size));
}

}  // namespace

std::string reading_text(const ScanProgress& progress) {
  return fmt::format("reading {}: {}", progress.path, share_text(progress));
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
          "stopped on request while {} was read ({}), before the first step: there is nothing to "
          "save and nothing is lost; start again to go on",
          progress.path,
          share_text(progress));
    say(progress);
  };
}

ProgressCallback with_time_limit(double seconds) {
  return [seconds, stopwatch = Stopwatch()](const ScanProgress& progress) {
    if (stopwatch.seconds() > seconds)
      throw Failure("{}: takes longer than {} s to read", progress.path, seconds);
  };
}

}  // namespace longspan
