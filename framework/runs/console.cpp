#include "framework/runs/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

namespace longspan {

struct Console::State {
  State(std::FILE* where, bool is_terminal) : stream(where), has_status(is_terminal) {}

  std::FILE* stream;
  bool has_status;
  std::mutex mutex;
  std::string status;
};

Console::Console(std::FILE* stream, bool has_status)
    : state_(std::make_shared<State>(stream, has_status)) {}

bool Console::has_status() const { return state_ && state_->has_status; }

namespace {

// Back to the first column, and clear the line.
constexpr const char* over_status = "\r\x1b[K";

}  // namespace

void Console::line(std::string_view text) const {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  // One write a line, so that the output of other processes does not come between.
  std::string output;
  if (!state_->status.empty()) output += over_status;
  output += text;
  output += '\n';
  output += state_->status;
  std::fwrite(output.data(), 1, output.size(), state_->stream);
  std::fflush(state_->stream);
}

void Console::status(std::string_view text) const {
  if (!has_status()) return;
  const std::lock_guard lock(state_->mutex);
  if (text.empty() && state_->status.empty()) return;
  std::string output = over_status;
  output += text;
  state_->status = text;
  std::fwrite(output.data(), 1, output.size(), state_->stream);
  std::fflush(state_->stream);
}

namespace {

struct Process {
  std::string name;
  int parent = 0;
};

// From /proc/PID/stat: "PID (name) state parent ...", where the name may hold anything.
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

bool is_terminal_of(int id) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", id), error);
  if (error) return false;
  return target.string().starts_with("/dev/pts/") || target.string().starts_with("/dev/tty");
}

}  // namespace

bool output_is_terminal() {
  if (::isatty(STDOUT_FILENO) == 0) return false;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return true;
  int id = ::getppid();
  for (int generation = 0; generation < 8 && id > 1; ++generation) {
    const Process process = process_of(id);
    if (starts_ranks(process.name)) return is_terminal_of(id);
    id = process.parent;
  }
  return false;
}

int terminal_width() {
  constexpr int usual = 80;
  if (const char* columns = std::getenv("COLUMNS")) {
    const int width = std::atoi(columns);
    if (width >= 20 && width <= 1000) return width;
  }
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  return usual;
}

}  // namespace longspan
