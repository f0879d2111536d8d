#include "framework/tracking/jsonl_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/system.h"
#include "framework/tracking/append_file.h"

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

}  // namespace

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

}  // namespace longspan
