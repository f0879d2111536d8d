#include "framework/tracking/jsonl_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/system.h"

namespace longspan {
namespace {

std::string read_all(int file, const std::filesystem::path& path) {
  std::string text;
  char block[1 << 16];
  for (;;) {
    const ssize_t count = retry_interrupted([&] { return ::read(file, block, sizeof block); });
    if (count < 0) fail_with_errno(path, "cannot be read");
    if (count == 0) return text;
    text.append(block, static_cast<std::size_t>(count));
  }
}

struct Line {
  std::int64_t step = 0;
  bool has_loss = false;
};

// Parses a line; nothing for a line of another format.
std::optional<Line> read_line(std::string_view text, const JsonlFormat& kind) {
  const auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find(kind.step_key);
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  if (!kind.text_key.empty()) {
    const auto reported = object.find(kind.text_key);
    if (reported == object.end() || !reported->is_string()) return std::nullopt;
  }
  const auto has_number = [&](std::string_view key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number();
  };
  return Line{step->get<std::int64_t>(),
              !kind.loss_key.empty() && has_number(kind.loss_key) && has_number(kind.norm_key)};
}

[[noreturn]] void refuse(const std::filesystem::path& path, int number, const JsonlFormat& kind) {
  throw DataError("{}:{}: expected {}; move the file away", path.string(), number, kind.a_line);
}

// The lines up to `last_step`.
struct Kept {
  std::size_t bytes = 0;
  MetricsEnd end;
};

Kept lines_up_to(std::int64_t last_step,
                 std::string_view text,
                 const std::filesystem::path& path,
                 const JsonlFormat& kind) {
  Kept kept;
  for (int number = 1;; ++number) {
    const std::string_view rest = text.substr(kept.bytes);
    const std::size_t length = rest.find('\n');
    if (length == std::string_view::npos) {  // incomplete, or empty
      if (!rest.substr(0, kind.begin.size()).starts_with(kind.begin.substr(0, rest.size())))
        refuse(path, number, kind);
      return kept;
    }
    const auto line = read_line(rest.substr(0, length), kind);
    if (!line) refuse(path, number, kind);
    if (line->step > last_step) return kept;
    kept.bytes += length + 1;
    kept.end.step = line->step;
    if (line->has_loss) kept.end.with_loss_before = std::exchange(kept.end.with_loss, line->step);
  }
}

// A name may include a file name, so it is escaped.
std::string json_text(std::string_view name) {
  return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string text_of(std::int64_t value) { return fmt::format("{}", value); }

// Formats a finite number.
std::string text_of(double value) {
  std::string text = fmt::format("{}", value);
  // Keeps the number a float for readers: as an integer, -0 would lose its sign.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool is_finite(const MetricField& field) { return std::isfinite(number_of(field)); }

std::string text_of(const MetricField& field) {
  return std::visit([](auto value) { return text_of(value); }, field.value);
}

// Formats the value for W&B and MLflow.
std::string value_of(const MetricField& field) {
  if (is_finite(field)) return text_of(field);
  const double value = number_of(field);
  return std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

std::string member_of(const MetricField& field) {
  const std::string name = column_of(field);
  if (is_finite(field)) return fmt::format("{}: {}", json_text(name), text_of(field));
  const double value = number_of(field);
  const char* reason = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return fmt::format("{}: null, {}: \"{}\"", json_text(name), json_text(name + "_reason"), reason);
}

std::string sample_lines_of(const MetricsRecord& record) {
  std::string lines;
  for (std::size_t i = 0; i < record.texts.size(); ++i)
    lines += fmt::format(
        "{{\"step\": {}, \"sample\": {}, \"input\": {}, \"output\": {}, \"reference\": {}}}\n",
        record.step,
        i,
        json_text(record.texts[i].input),
        json_text(record.texts[i].output),
        json_text(record.texts[i].reference));
  return lines;
}

std::string wandb_line(const MetricsRecord& record) {
  std::string line =
      fmt::format("{{\"_step\": {}, \"_timestamp\": {:.3f}", record.step, record.time);
  for (const MetricField& field : record.fields)
    line += fmt::format(", {}: {}", json_text(tag_of(field)), value_of(field));
  return line + "}\n";
}

// MLflow allows letters, digits and "_-. /" in a key. The key must also be a path without empty,
// "." or ".." components, which names of validated files may have. It allows letters of all
// scripts, but not all non-ASCII characters, such as dashes. Those and invalid UTF-8 become their
// bytes in hexadecimal.
std::string allowed_in_key(std::string_view tag) {
  std::string key;
  for (const char letter : tag) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x80)
      key += fmt::format("_{:02x}", byte);
    else if (std::isalnum(byte) != 0 ||
             std::string_view("_-. /").find(letter) != std::string_view::npos)
      key += letter;
    else
      key += '_';
  }
  return key;
}

std::string mlflow_key(std::string_view tag) {
  constexpr std::size_t longest = 250;
  const std::string allowed = allowed_in_key(tag);
  std::string key;
  for (std::size_t begin = 0; begin <= allowed.size();) {
    const std::size_t end = std::min(allowed.find('/', begin), allowed.size());
    std::string part = allowed.substr(begin, end - begin);
    if (part == "." || part == "..") part.assign(part.size(), '_');
    if (!part.empty()) key += (key.empty() ? "" : "/") + part;
    begin = end + 1;
  }
  if (key.size() <= longest) return key;
  // The beginning and the end identify it: file names differ there.
  constexpr std::size_t kept = 40;
  return key.substr(0, kept) + "_" + key.substr(key.size() - (longest - kept - 1));
}

std::string mlflow_lines_of(const MetricsRecord& record) {
  std::string lines;
  for (const MetricField& field : record.fields)
    lines += fmt::format("{{\"key\": {}, \"value\": {}, \"timestamp\": {:.0f}, \"step\": {}}}\n",
                         json_text(mlflow_key(tag_of(field))),
                         value_of(field),
                         1000 * record.time,
                         record.step);
  return lines;
}

}  // namespace

void fail_with_errno(const std::filesystem::path& path, const char* what) {
  throw Failure("{}: {}: {}", path.string(), what, errno_message());
}

void write_all(int file, const std::filesystem::path& path, std::string_view bytes) {
  const ssize_t count =
      retry_interrupted([&] { return ::write(file, bytes.data(), bytes.size()); });
  if (count < 0) fail_with_errno(path, "cannot be written");
  // A partial line (full disk) would otherwise be mistaken for the remains of a killed run.
  if (static_cast<std::size_t>(count) != bytes.size())
    throw Failure("{}: wrote {} of {} bytes; check whether the disk is full",
                  path.string(),
                  count,
                  bytes.size());
}

void fsync_file(int file, const std::filesystem::path& path) {
  if (::fdatasync(file) != 0) fail_with_errno(path, "fsync failed");
}

MetricsEnd end_of_lines(const std::filesystem::path& path, const JsonlFormat& kind) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) return {};
    fail_with_errno(path, "cannot be opened");
  }
  std::string text;
  try {
    text = read_all(file, path);
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
  return lines_up_to(std::numeric_limits<std::int64_t>::max(), text, path, kind).end;
}

JsonlFile::JsonlFile(const std::filesystem::path& path, std::int64_t last_step, JsonlFormat kind)
    : path_(path), kind_(std::move(kind)) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail_with_errno(path_, "cannot be opened");
  try {
    struct stat status {};
    if (::fstat(file_, &status) != 0) fail_with_errno(path_, "cannot be read");
    // Reading a device may never end.
    const bool is_file = S_ISREG(status.st_mode);
    const auto kept = static_cast<off_t>(
        is_file ? lines_up_to(last_step, read_all(file_, path_), path_, kind_).bytes : 0);
    if (is_file && kept != status.st_size && ::ftruncate(file_, kept) != 0)
      fail_with_errno(path_, "cannot be truncated");
  } catch (...) {
    ::close(file_);
    throw;
  }
}

JsonlFile::~JsonlFile() {
  if (file_ >= 0) ::close(file_);
}

void JsonlFile::write(const MetricsRecord& record) {
  const std::string lines = kind_.lines(record);
  if (!lines.empty()) write_all(file_, path_, lines);
}

void JsonlFile::sync() { fsync_file(file_, path_); }

std::string json_line(const MetricsRecord& record) {
  std::string line = fmt::format("{{\"step\": {}", record.step);
  for (const MetricField& field : record.fields) line += ", " + member_of(field);
  return line + "}";
}

JsonlFormat metrics_lines() {
  return {.begin = "{\"step\": ",
          .step_key = "step",
          .loss_key = "loss",
          .norm_key = "grad_norm",
          .lines = [](const MetricsRecord& record) { return json_line(record) + "\n"; }};
}

JsonlFormat samples_lines() {
  return {.begin = "{\"step\": ",
          .step_key = "step",
          .text_key = "output",
          .a_line = "a sample",
          .lines = sample_lines_of};
}

JsonlFormat wandb_lines() {
  return {.begin = "{\"_step\": ", .step_key = "_step", .lines = wandb_line};
}

JsonlFormat mlflow_lines() {
  return {.begin = "{\"key\": ", .step_key = "step", .lines = mlflow_lines_of};
}

}  // namespace longspan
