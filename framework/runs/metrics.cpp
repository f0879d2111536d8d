#include "framework/runs/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "framework/core/error.h"

namespace longspan {
namespace {

constexpr std::string_view line_begin = "{\"step\": ";

// A name may hold that of a file.
std::string escaped(std::string_view name) {
  const std::string text =
      nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

void append(std::string& line, std::string_view name, std::int64_t value) {
  line += fmt::format("{}\"{}\": {}", line.empty() ? "" : ", ", escaped(name), value);
}

void append(std::string& line, std::string_view plain, double value) {
  const std::string name = escaped(plain);
  const char* comma = line.empty() ? "" : ", ";
  if (!std::isfinite(value)) {
    const char* reason = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    line += fmt::format("{}\"{}\": null, \"{}_reason\": \"{}\"", comma, name, name, reason);
    return;
  }
  std::string text = fmt::format("{}", value);
  // A reader must take it for a floating-point number: -0 would lose its sign.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  line += fmt::format("{}\"{}\": {}", comma, name, text);
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw Failure(
      "{}: {}: {}", path.string(), what, std::error_code(errno, std::generic_category()).message());
}

std::string read_all(int file, const std::filesystem::path& path) {
  std::string text;
  char block[1 << 16];
  for (;;) {
    const ssize_t count = ::read(file, block, sizeof block);
    if (count == 0) return text;
    if (count > 0) {
      text.append(block, static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      fail(path, "cannot be read");
    }
  }
}

struct Line {
  std::int64_t step = 0;
  bool has_loss = false;
};

// What a line says, or nothing when it is not one of ours.
std::optional<Line> read_line(std::string_view text) {
  const auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  const auto loss = object.find("loss");
  return Line{step->get<std::int64_t>(), loss != object.end() && loss->is_number()};
}

[[noreturn]] void refuse(const std::filesystem::path& path, int number) {
  throw DataError("{}:{}: found something else than a line of metrics; move the file away",
                  path.string(),
                  number);
}

// The lines of steps up to `last_step`, from the first.
struct Kept {
  std::size_t bytes = 0;
  MetricsEnd end;
};

Kept lines_up_to(std::int64_t last_step, std::string_view text, const std::filesystem::path& path) {
  Kept kept;
  for (int number = 1;; ++number) {
    const std::string_view rest = text.substr(kept.bytes);
    const std::size_t length = rest.find('\n');
    if (length == std::string_view::npos) {  // unfinished, or nothing
      if (!rest.substr(0, line_begin.size()).starts_with(line_begin.substr(0, rest.size())))
        refuse(path, number);
      return kept;
    }
    const auto line = read_line(rest.substr(0, length));
    if (!line) refuse(path, number);
    if (line->step > last_step) return kept;
    kept.bytes += length + 1;
    kept.end.step = line->step;
    if (line->has_loss) kept.end.with_loss = line->step;
  }
}

}  // namespace

std::string json_line(const StepMetrics& metrics) {
  std::string line;
  append(line, "step", metrics.step);
  append(line, "tokens", metrics.tokens);
  append(line, "loss", metrics.loss);
  if (metrics.terms.size() > 1)
    for (const TermLoss& term : metrics.terms) append(line, "loss_" + term.name, term.loss);
  for (const WatchedResult& watched : metrics.watched) {
    append(line, watched.name + "_mean", watched.mean);
    append(line, watched.name + "_largest", watched.largest);
  }
  for (const auto& [name, value] : metrics.figures) append(line, name, value);
  append(line, "learning_rate", metrics.learning_rate);
  append(line, "gradient_norm", metrics.gradient_norm);
  if (metrics.loss_scale) append(line, "loss_scale", *metrics.loss_scale);
  if (metrics.reconstruction_error)
    append(line, "reconstruction_error", *metrics.reconstruction_error);
  if (metrics.timing) {
    append(line, "tokens_per_second", metrics.timing->tokens_per_second);
    append(line, "model_flops_utilisation", metrics.timing->model_flops_utilisation);
    append(line, "peak_memory_bytes", metrics.timing->peak_memory_bytes);
    const StepTimes& times = metrics.timing->times;
    append(line, "step_seconds", times.step);
    append(line, "reading_seconds", times.reading);
    append(line, "waiting_seconds", times.waiting);
    append(line, "saving_seconds", times.saving);
    append(line, "validating_seconds", times.validating);
  }
  for (const Figure& figure : metrics.validation) {
    const std::string name = "validation_" + figure.name;
    if (figure.is_count)
      append(line, name, static_cast<std::int64_t>(figure.value));
    else
      append(line, name, figure.value);
  }
  return fmt::format("{{{}}}", line);
}

MetricsEnd end_of_metrics(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) return {};
    fail(path, "cannot be opened");
  }
  std::string text;
  try {
    text = read_all(file, path);
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
  return lines_up_to(std::numeric_limits<std::int64_t>::max(), text, path).end;
}

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t last_step) : path_(path) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail(path_, "cannot be opened");
  try {
    struct stat status {};
    if (::fstat(file_, &status) != 0) fail(path_, "cannot be read");
    const auto kept = static_cast<off_t>(
        last_step > 0 ? lines_up_to(last_step, read_all(file_, path_), path_).bytes : 0);
    if (kept != status.st_size && ::ftruncate(file_, kept) != 0) fail(path_, "cannot be cut");
  } catch (...) {
    ::close(file_);
    throw;
  }
}

MetricsFile::~MetricsFile() {
  if (file_ >= 0) ::close(file_);
}

void MetricsFile::write(const StepMetrics& metrics) {
  const std::string line = json_line(metrics) + '\n';
  ssize_t count = 0;
  do {
    count = ::write(file_, line.data(), line.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail(path_, "cannot be written");
  // A line cut short (the disk is full) would be taken for one that a killed run left.
  if (static_cast<std::size_t>(count) != line.size()) {
    throw Failure(
        "{}: {} of {} bytes written; is the disk full?", path_.string(), count, line.size());
  }
}

void MetricsFile::sync() {
  if (::fdatasync(file_) != 0) fail(path_, "cannot be brought to the disk");
}

}  // namespace longspan
