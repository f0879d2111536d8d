#include "framework/core/crash_handler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>

#include "framework/core/error.h"

namespace longspan {
namespace {

constexpr std::string_view no_memory = "out of memory";
constexpr int code_of_libraries = -1;

// The run's log; empty: not set.
std::array<char, PATH_MAX> log_path = {};
// That log, open for signal handlers since another file may replace it at its path; -1: closed.
int log_descriptor = -1;
// Offset of local time, which is not async-signal-safe to query.
std::chrono::seconds log_offset{0};

// Uses one write, so that other ranks' output is not interleaved. A failed write cannot be reported
// anywhere.
void write_line(int file, std::string_view begin, std::initializer_list<std::string_view> parts) {
  constexpr std::string_view end = "\n";
  std::array<iovec, 6> pieces = {};
  int count = 0;
  const auto add = [&](std::string_view part) {
    pieces[static_cast<std::size_t>(count++)] = {const_cast<char*>(part.data()), part.size()};
  };
  add(begin);
  for (const std::string_view part : parts) add(part);
  add(end);
  [[maybe_unused]] const ssize_t written = ::writev(file, pieces.data(), count);
}

// Writes "2026-01-31 12:00:00.000 ", the prefix of log lines.
std::size_t write_time(std::array<char, 40>& text) {
  using namespace std::chrono;
  const auto now = floor<milliseconds>(system_clock::now() + log_offset);
  const auto day = floor<days>(now);
  const year_month_day date(day);
  const hh_mm_ss time(now - day);
  return fmt::format_to_n(text.data(),
                          text.size(),
                          "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03} ",
                          static_cast<int>(date.year()),
                          static_cast<unsigned>(date.month()),
                          static_cast<unsigned>(date.day()),
                          time.hours().count(),
                          time.minutes().count(),
                          time.seconds().count(),
                          time.subseconds().count())
      .size;
}

// `begin`: the level, followed by the first parts of the message.
void write_log_line(int log,
                    std::string_view level,
                    std::initializer_list<std::string_view> parts) {
  std::array<char, 40> text;
  const std::string_view time(text.data(), write_time(text));
  std::array<std::string_view, 4> words = {level};
  std::size_t count = 1;
  for (const std::string_view part : parts) words[count++] = part;
  write_line(log, time, {words[0], words[1], words[2], words[3]});
}

// Returns whether a rank has already logged why the job ends. A last line that exceeds the buffer
// counts as no error.
bool ends_with_error(int log) {
  std::array<char, 1 << 13> end;
  const off_t size = ::lseek(log, 0, SEEK_END);
  const off_t begin = size > off_t{end.size()} ? size - off_t{end.size()} : 0;
  const ssize_t count = ::pread(log, end.data(), end.size(), begin);
  std::string_view line(end.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (const std::size_t before = line.rfind('\n'); before != line.npos)
    line.remove_prefix(before + 1);
  constexpr std::size_t time = 23;  // "2026-01-31 12:00:00.000"
  return line.size() > time && line.substr(time).starts_with(" error ");
}

void say(std::initializer_list<std::string_view> parts) noexcept {
  write_line(STDERR_FILENO, "longspan: ", parts);
  if (log_path[0] == '\0') return;
  const int log = ::open(log_path.data(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (log < 0) return;
  write_log_line(log, "error ", parts);
  ::close(log);
}

[[noreturn]] void end_with_failure() noexcept { std::_Exit(static_cast<int>(ExitCode::failure)); }

[[noreturn]] void end_by_exception() noexcept {
  try {
    if (std::current_exception()) throw;
    say({"internal error: the program aborted"});
  } catch (const std::bad_alloc&) {
    say({no_memory});
  } catch (const std::exception& error) {
    say({error.what()});
  } catch (...) {
    say({"internal error: unknown exception"});
  }
  end_with_failure();
}

void end_by_library(int code, void*) {
  if (code != code_of_libraries) return;
  say({no_memory, ", or a library aborted the program"});
  end_with_failure();
}

// An overflowed stack cannot run the handler: this alternate stack serves the main thread.
void set_stack_of_signals() {
  alignas(64) static std::array<std::byte, std::size_t{1} << 16> memory;
  const stack_t stack = {.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
  ::sigaltstack(&stack, nullptr);
}

constexpr std::string_view name_of(int number) {
  switch (number) {
    case SIGABRT:
      return "signal 6 (Aborted)";
    case SIGBUS:
      return "signal 7 (Bus error)";
    default:
      return "signal 11 (Segmentation fault)";
  }
}

// Raises the signal again, now with its default action (SA_RESETHAND).
void end_by_signal(int number) {
  say({name_of(number),
       ": a disk or the memory is full, ",
       "or the program or a library has a bug"});
  ::raise(number);
}

}  // namespace

void set_crash_log(const std::filesystem::path& log) {
  // The working directory may change before the crash.
  const std::string path = std::filesystem::absolute(log).string();
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  if (path.size() >= log_path.size() || ::localtime_r(&now, &local) == nullptr) return;
  log_offset = std::chrono::seconds(local.tm_gmtoff);
  path.copy(log_path.data(), path.size());
  log_path[path.size()] = '\0';
}

void close_log_for_signals() {
  if (log_descriptor >= 0) ::close(log_descriptor);
  log_descriptor = -1;
}

void open_log_for_signals() {
  close_log_for_signals();
  log_descriptor =
      log_path[0] == '\0' ? -1 : ::open(log_path.data(), O_RDWR | O_APPEND | O_CLOEXEC);
}

void write_once_to_log(std::string_view level, std::string_view sentence) noexcept {
  if (log_descriptor >= 0) {
    if (::flock(log_descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return;
    if (ends_with_error(log_descriptor)) return;
  }
  // A status line may occupy the current line of the terminal.
  const bool is_alone_on_terminal =
      ::isatty(STDOUT_FILENO) != 0 && std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr;
  write_line(STDOUT_FILENO, is_alone_on_terminal ? "\r\x1b[K" : "", {sentence});
  if (log_descriptor >= 0) write_log_line(log_descriptor, level, {" ", sentence});
}

void install_crash_handlers() {
  std::set_terminate(end_by_exception);
  ::on_exit(end_by_library, nullptr);
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT}) {
    struct sigaction before = {}, handler = {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    set_stack_of_signals();
    handler.sa_handler = end_by_signal;
    handler.sa_flags = static_cast<int>(SA_RESETHAND | SA_ONSTACK);  // SA_RESETHAND is unsigned
    ::sigaction(number, &handler, nullptr);
  }
}

}  // namespace longspan
