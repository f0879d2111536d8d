#include "framework/training_loop/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>
#include <vector>

#include "framework/core/error.h"

namespace longspan {

namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Writes through the console, which preserves the status line.
class ConsoleSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ConsoleSink(Console console) : console_(std::move(console)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view sentence(message.payload.data(), message.payload.size());
    if (message.level == spdlog::level::info) return console_.line(sentence);
    const auto level = spdlog::level::to_string_view(message.level);
    const std::string word = fmt::format("{}:", std::string_view(level.data(), level.size()));
    console_.line(fmt::format("{} {}", painted(word, message.level), sentence));
  }
  void flush_() override {}

 private:
  std::string painted(const std::string& word, spdlog::level::level_enum level) const {
    if (level < spdlog::level::warn) return word;
    return console_.colored(word, level == spdlog::level::warn ? Color::yellow : Color::red);
  }

  Console console_;
};

// Opens the file for appending. Throws spdlog_ex.
spdlog::sink_ptr file_sink(const std::filesystem::path& file) {
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
  sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  return sink;
}

}  // namespace

struct Log::State {
  spdlog::logger logger;
  spdlog::sink_ptr file;  // one of the logger's sinks; none: console only
};

Log::Log(const Console& console, const std::filesystem::path& file, LogLevel least) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<ConsoleSink>(console)};
  spdlog::sink_ptr in_file;
  if (!file.empty()) {
    try {
      in_file = file_sink(file);
      sinks.push_back(in_file);
    } catch (const spdlog::spdlog_ex& error) {
      throw Failure("cannot write the log: {}", error.what());
    }
  }
  state_ = std::make_shared<State>(
      State{spdlog::logger("longspan", sinks.begin(), sinks.end()), std::move(in_file)});
  state_->logger.set_level(level_of(least));
  state_->logger.flush_on(spdlog::level::trace);
}

bool Log::shows(LogLevel level) const {
  return state_ && state_->logger.should_log(level_of(level));
}

void Log::put(LogLevel level, const std::string& sentence) const {
  state_->logger.log(level_of(level), spdlog::string_view_t(sentence.data(), sentence.size()));
}

void Log::put_in_file(const std::string& sentence) const {
  if (!state_->file) return;
  spdlog::logger logger("longspan", state_->file);
  logger.flush_on(spdlog::level::trace);
  logger.info(spdlog::string_view_t(sentence.data(), sentence.size()));
}

void append_to_log(const std::filesystem::path& file, LogLevel level, const char* sentence) noexcept
    try {
  if (!std::filesystem::exists(file)) return;
  spdlog::logger logger("longspan", file_sink(file));
  logger.set_error_handler([](const std::string&) {});  // the default handler writes to the console
  logger.log(level_of(level), spdlog::string_view_t(sentence));
} catch (...) {
}

namespace {

constexpr int usual_width = 80;

// Returns the text cut to at most `columns` columns.
std::string_view cut(std::string_view text, int columns) {
  return text.substr(0, static_cast<std::size_t>(std::max(columns, 0)));
}

// Returns the columns of a text. Color codes have none, and of UTF-8 only the first byte counts.
int columns_in(std::string_view text) {
  int columns = 0;
  bool in_color = false;
  for (const char c : text) {
    if (c == '\x1b') in_color = true;
    if (!in_color && (static_cast<unsigned char>(c) & 0xC0) != 0x80) ++columns;
    if (c == 'm') in_color = false;
  }
  return columns;
}

// Wraps lines between words to at most `columns` columns, as far as word lengths permit. Lines
// after the first are indented.
std::string wrapped(std::string_view text, int columns) {
  if (const std::size_t end = text.find('\n'); end != text.npos)
    return wrapped(text.substr(0, end), columns) + "\n" + wrapped(text.substr(end + 1), columns);
  constexpr std::string_view indent = "\n  ";
  std::string lines;
  int used = 0;
  while (!text.empty()) {
    // A word with its preceding blanks, which a line break drops.
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const int wanted = columns_in(text.substr(0, end));
    const bool breaks = used > 0 && used + wanted > columns;
    lines += breaks ? indent : text.substr(0, begin);
    lines += word;
    used = breaks ? static_cast<int>(indent.size()) - 1 + columns_in(word) : used + wanted;
    text.remove_prefix(end);
  }
  return lines;
}

}  // namespace

struct Console::State {
  State(std::FILE* where, Terminal what) : stream(where), terminal(std::move(what)) {}

  int width() const { return terminal.width ? terminal.width() : usual_width; }
  // The last column stays free, as some terminals wrap after it.
  std::string_view fitted_status() const {
    return terminal.width ? cut(status, width() - 1) : std::string_view(status);
  }
  // Moves back to the start of the status line and clears its rows.
  std::string over_status() const {
    const int columns = width();
    const int rows = terminal.width && columns > 0 && drawn > 0 ? (drawn - 1) / columns : 0;
    return rows > 0 ? fmt::format("\r\x1b[{}A\x1b[J", rows) : "\r\x1b[K";
  }
  void write(const std::string& output) const {
    std::fwrite(output.data(), 1, output.size(), stream);
    std::fflush(stream);
  }

  std::FILE* stream;
  Terminal terminal;
  std::mutex mutex;
  std::string status;
  int drawn = 0;  // columns written
};

Console::Console(std::FILE* stream, Terminal terminal)
    : state_(std::make_shared<State>(stream, std::move(terminal))) {}

bool Console::has_status() const { return state_ && state_->terminal.has_status; }

int Console::width() const { return state_ ? state_->width() : usual_width; }

void Console::line(std::string_view text) const {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  // One write per line, so that output of other processes does not interleave.
  std::string output;
  if (!state_->status.empty()) output += state_->over_status();
  output += state_->terminal.width ? wrapped(text, state_->width() - 1) : std::string(text);
  output += '\n';
  const std::string_view status = state_->fitted_status();
  output += status;
  state_->drawn = static_cast<int>(status.size());
  state_->write(output);
}

void Console::status(std::string_view text) const {
  if (!has_status()) return;
  const std::lock_guard lock(state_->mutex);
  if (text.empty() && state_->status.empty()) return;
  std::string output = state_->over_status();
  state_->status = text;
  const std::string_view status = state_->fitted_status();
  output += status;
  state_->drawn = static_cast<int>(status.size());
  state_->write(output);
}

std::string Console::colored(std::string_view word, Color color) const {
  if (!state_ || !state_->terminal.has_colors) return std::string(word);
  return fmt::format("\x1b[{}m{}\x1b[0m", color == Color::red ? 31 : 33, word);
}

namespace {

struct Process {
  std::string name;
  int parent = 0;
};

// Parses /proc/PID/stat: "PID (name) state parent ...", where the name may contain any character.
Process process_of(int id) {
  std::ifstream stream(fmt::format("/proc/{}/stat", id));
  std::string text;
  std::getline(stream, text);
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 >= text.size())
    return {};
  Process process;
  process.name = text.substr(open + 1, close - open - 1);
  std::from_chars(text.data() + close + 4, text.data() + text.size(), process.parent);
  return process;
}

bool starts_ranks(const std::string& name) {
  return name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "orted" ||
         name == "prterun" || name == "prted";
}

// Returns the process that started this rank and forwards its output; 0 if there is none.
int passing_process() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return 0;
  int id = ::getppid();
  for (int generation = 0; generation < 8 && id > 1; ++generation) {
    const Process process = process_of(id);
    if (starts_ranks(process.name)) return id;
    id = process.parent;
  }
  return -1;  // the output's destination is unknown
}

bool is_terminal_of(int id) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", id), error);
  if (error) return false;
  return target.string().starts_with("/dev/pts/") || target.string().starts_with("/dev/tty");
}

bool output_is_terminal() {
  if (::isatty(STDOUT_FILENO) == 0) return false;
  const int passing = passing_process();
  return passing == 0 || (passing > 0 && is_terminal_of(passing));
}

// Returns 0 if the terminal does not report its width.
int columns_of(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int columns_of_process(int id) {
  const std::string output = fmt::format("/proc/{}/fd/1", id);
  const int descriptor = ::open(output.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return 0;
  const int columns = columns_of(descriptor);
  ::close(descriptor);
  return columns;
}

}  // namespace

Terminal terminal_of_output() {
  const char* const kind = std::getenv("TERM");
  const bool is_dumb = kind != nullptr && std::string_view(kind) == "dumb";
  if (is_dumb || !output_is_terminal()) return {};
  return {.has_status = true,
          .has_colors = std::getenv("NO_COLOR") == nullptr,
          .width = terminal_width};
}

int terminal_width() {
  const int passing = passing_process();
  const int columns = passing > 0 ? columns_of_process(passing) : columns_of(STDOUT_FILENO);
  if (columns > 0) return columns;
  const char* const columns_text = std::getenv("COLUMNS");
  const int width = columns_text == nullptr ? 0 : std::atoi(columns_text);
  return width > 0 && width <= 10000 ? width : usual_width;
}

}  // namespace longspan
