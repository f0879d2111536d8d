#include "framework/training_loop/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "framework/core/format.h"
#include "framework/core/span.h"

namespace longspan {

namespace {

double fraction_of(const ProgressState& state) {
  if (state.steps <= 0) return 1;
  return std::clamp(static_cast<double>(state.step) / static_cast<double>(state.steps), 0.0, 1.0);
}

std::vector<std::string> numbers_of(const ProgressState& state) {
  std::vector<std::string> numbers{fmt::format("step {}/{}", state.step, state.steps),
                                   fmt::format("loss {:.4f}", state.loss),
                                   fmt::format("lr {:.2e}", state.learning_rate),
                                   fmt::format("grad norm {:.3g}", state.gradient_norm),
                                   fmt::format("{} tokens/s", count_text(state.tokens_per_second))};
  if (state.utilization) numbers.push_back(fmt::format("MFU {:.0f}%", 100 * *state.utilization));
  if (state.seconds_left) {
    numbers.push_back(fmt::format("{} left", duration_text(*state.seconds_left)));
  }
  return numbers;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

std::string count_text(double count) {
  if (!std::isfinite(count)) return "?";
  if (count < 1000) return fmt::format("{:.0f}", count);
  static constexpr const char* units[] = {"k", "M", "G", "T"};
  std::size_t unit = 0;
  double amount = count / 1000;
  // 999.95 would be printed as 1000 of the unit.
  while (amount >= 999.5 && unit + 1 < std::size(units)) {
    amount /= 1000;
    ++unit;
  }
  const int decimals = amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", amount, decimals, units[unit]);
}

std::string progress_bar(const ProgressState& state, int width) {
  constexpr int max_cells = 30;
  constexpr int fewest_cells = 10;
  const double fraction = fraction_of(state);
  std::vector<std::string> numbers = numbers_of(state);
  const auto text_of = [&] { return fmt::format("{}", fmt::join(numbers, "  ")); };
  const auto cells_left = [&] {
    // "[" cells "] 100%  " numbers
    return width - 9 - static_cast<int>(text_of().size());
  };
  // The learning rate and the gradient norm.
  if (cells_left() < fewest_cells) numbers.erase(numbers.begin() + 2, numbers.begin() + 4);
  while (numbers.size() > 1 && cells_left() < fewest_cells) numbers.pop_back();
  const int cells = std::min(max_cells, cells_left());
  const auto percent = static_cast<int>(std::floor(100 * fraction));
  if (cells < 1) {
    return fmt::format("{:3}%  {}", percent, text_of())
        .substr(0, static_cast<std::size_t>(std::max(width, 0)));
  }
  const int full = static_cast<int>(std::floor(fraction * cells));
  return fmt::format("[{:#<{}}{:.<{}}] {:3}%  {}", "", full, "", cells - full, percent, text_of());
}

std::string progress_line(const ProgressState& state) {
  return fmt::format("{}", fmt::join(numbers_of(state), "  "));
}

std::string chunk_text(const ChunkProgress& progress, std::int64_t step) {
  std::string text = fmt::format("Step {}: {} pass, chunk {} of {}",
                                 step,
                                 progress.is_backward ? "backward" : "forward",
                                 progress.chunk,
                                 progress.chunks);
  if (progress.parts > 1)
    text += fmt::format(", microbatch {} of {}", progress.part, progress.parts);
  return text;
}

Progress::Progress(const Console& console, const Log& log, ConsoleKind kind)
    : console_(console), log_(log), has_bar_(kind != ConsoleKind::plain && console.has_status()) {}

void Progress::update(const ProgressState& state, bool is_logged) {
  changed_ = Clock::now();
  const bool is_last = state.step >= state.steps;
  const bool is_reported = is_logged || is_last;
  if (!has_bar_) {
    if (is_reported) log_.info("{}", progress_line(state));
    return;
  }
  if (is_reported) log_.note("{}", progress_line(state));
  const auto now = Clock::now();
  if (drawn_ && !is_last && now - *drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  // The last column stays free, as some terminals wrap after it.
  console_.status(progress_bar(state, console_.width() - 1));
}

void Progress::update_step(const std::string& text) {
  const auto now = Clock::now();
  if (!has_bar_) {
    if (now - changed_ < std::chrono::minutes(1)) return;
    changed_ = now;
    log_.info("{}", text);
    return;
  }
  if (drawn_ && now - *drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  console_.status(text.substr(0, static_cast<std::size_t>(std::max(console_.width() - 1, 0))));
}

void Progress::finish() { console_.status(""); }

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
