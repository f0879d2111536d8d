#include "launch/cli/metrics_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <string_view>

#include "checkpoints/files.h"
#include "framework/core/system.h"

namespace longspan {
namespace {

constexpr std::string_view validation_prefix = "validation_";
constexpr std::string_view validation_time = "validation_seconds";  // a time
constexpr std::int64_t first_window = 1 << 16;  // bytes; enlarged eightfold as needed
constexpr std::int64_t max_searched = 1 << 25;  // bytes, for a validation

// Bytes of a file from a position to its end.
struct Window {
  std::int64_t begin = 0;
  std::string text = {};
  std::string trouble = {};
};

// Returns the last `bytes` of the file, from a complete line, or all from `begin`.
Window read_window(const std::filesystem::path& file,
                   std::optional<std::int64_t> bytes,
                   std::int64_t begin = 0) {
  Window window;
  const auto fail = [&](std::string_view what) {
    window.trouble = fmt::format("{}: {}", file.string(), what);
    return window;
  };
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.defined())
    return errno == ENOENT ? window : fail("cannot be opened: " + errno_message());
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail("expected a regular file");
  const std::int64_t size = status.st_size;
  window.begin = bytes ? std::max<std::int64_t>(0, size - *bytes) : std::min(begin, size);
  window.text.resize(static_cast<std::size_t>(size - window.begin));
  std::size_t filled = 0;
  while (filled < window.text.size()) {
    const ssize_t count = retry_interrupted([&] {
      return ::pread(descriptor.get(),
                     window.text.data() + filled,
                     window.text.size() - filled,
                     window.begin + static_cast<off_t>(filled));
    });
    if (count < 0) return fail("cannot be read: " + errno_message());
    if (count == 0) break;  // truncated meanwhile
    filled += static_cast<std::size_t>(count);
  }
  window.text.resize(filled);
  if (!bytes || window.begin == 0) return window;
  // Text before the first line end belongs to an earlier line.
  const std::size_t line = window.text.find('\n');
  const std::size_t cut = line == std::string::npos ? window.text.size() : line + 1;
  window.text.erase(0, cut);
  window.begin += static_cast<std::int64_t>(cut);
  return window;
}

// Whether it is an object with a step. Drops lists and nested objects: a run writes none, and
// recursion would be as deep as a damaged file nests.
bool is_metrics(MetricsLine& line) {
  if (!line.is_object()) return false;
  constexpr std::int64_t most = std::int64_t{1} << 53;
  const auto step = line.find("step");
  if (step == line.end() || !step->is_number_integer() || *step < 0 || *step > most) return false;
  for (auto member = line.begin(); member != line.end();)
    member = member->is_structured() ? line.erase(member) : std::next(member);
  return true;
}

// Parses the line that starts at `begin` of the text.
void take_line(std::string_view text,
               std::size_t begin,
               std::int64_t place,
               const std::filesystem::path& file,
               MetricsPart& part) {
  const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  auto values = MetricsLine::parse(line, nullptr, false);
  if (is_metrics(values))
    part.lines.push_back(std::move(values));
  else if (part.trouble.empty())
    part.trouble = fmt::format("{}: expected a line of metrics at byte {}",
                               file.string(),
                               place + static_cast<std::int64_t>(begin));
}

// Returns where the last validation metric of the text starts, or npos.
std::size_t last_validation_metric(std::string_view text) {
  const std::string begin = fmt::format("\"{}", validation_prefix);
  const std::string time = fmt::format("\"{}\"", validation_time);
  std::size_t found = text.rfind(begin);
  while (found != std::string_view::npos && text.substr(found).starts_with(time))
    found = found == 0 ? std::string_view::npos : text.rfind(begin, found - 1);
  return found;
}

// Returns the end of the last complete line of the text.
std::size_t end_of_lines(std::string_view text) {
  const std::size_t last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

void check_rest(const Window& window, const std::filesystem::path& file, MetricsPart& part) {
  const std::size_t end = end_of_lines(window.text);
  if (end < window.text.size() && window.text[end] != '{' && part.trouble.empty())
    part.trouble = fmt::format("{}: expected a line of metrics at the end", file.string());
}

}  // namespace

MetricsPart newest_metrics(const std::filesystem::path& file, std::size_t count) {
  for (std::int64_t bytes = first_window;; bytes *= 8) {
    const Window window = read_window(file, bytes);
    const std::string_view text(window.text);
    const std::size_t end = end_of_lines(text);
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    if (window.trouble.empty() && window.begin > 0 && lines < count) continue;
    MetricsPart part = {.lines = {},
                        .end = window.begin + static_cast<std::int64_t>(end),
                        .trouble = window.trouble};
    std::size_t begin = 0;
    for (std::size_t passed = 0; passed + count < lines; ++passed)
      begin = text.find('\n', begin) + 1;
    for (; begin < end; begin = text.find('\n', begin) + 1)
      take_line(text, begin, window.begin, file, part);
    check_rest(window, file, part);
    return part;
  }
}

MetricsPart newest_validation(const std::filesystem::path& file) {
  for (std::int64_t bytes = first_window;; bytes *= 8) {
    const Window window = read_window(file, bytes);
    const std::string_view text(window.text);
    const std::size_t end = end_of_lines(text);
    MetricsPart part = {.lines = {},
                        .end = window.begin + static_cast<std::int64_t>(end),
                        .trouble = window.trouble};
    const std::size_t found = last_validation_metric(text.substr(0, end));
    if (found == std::string_view::npos) {
      // A run without validations has none earlier either, and its file may be large.
      if (!window.trouble.empty() || window.begin == 0 || bytes >= max_searched) return part;
      continue;
    }
    const std::size_t before = text.rfind('\n', found);
    take_line(text, before == std::string_view::npos ? 0 : before + 1, window.begin, file, part);
    return part;
  }
}

MetricsPart metrics_from(const std::filesystem::path& file, std::int64_t begin) {
  const Window window = read_window(file, std::nullopt, begin);
  const std::string_view text(window.text);
  const std::size_t end = end_of_lines(text);
  MetricsPart part = {
      .lines = {}, .end = window.begin + static_cast<std::int64_t>(end), .trouble = window.trouble};
  for (std::size_t line = 0; line < end; line = text.find('\n', line) + 1)
    take_line(text, line, window.begin, file, part);
  check_rest(window, file, part);
  return part;
}

std::string format_metric(const MetricsLine& line, const std::string& name, int digits) {
  return format_metric(
      line, name, [digits](double number) { return fmt::format("{:.{}g}", number, digits); });
}

std::string format_metric(const MetricsLine& line,
                          const std::string& name,
                          const std::function<std::string(double)>& text) {
  const auto found = line.find(name);
  if (found == line.end()) return "";
  if (found->is_number_integer()) return found->dump();
  if (found->is_number()) return text(found->get<double>());
  const auto reason = line.find(name + "_reason");
  return reason != line.end() && reason->is_string() ? reason->get<std::string>() : "?";
}

bool is_validation_metric(std::string_view name) {
  return name.starts_with(validation_prefix) && name != validation_time;
}

std::string validation_name(const MetricsLine& line) {
  for (const auto& [name, value] : line.items())
    if (is_validation_metric(name) && !name.ends_with("_reason")) return name;
  return "";
}

}  // namespace longspan
