#include "tests/support/faulty_files/watched.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <utility>

namespace longspan::testing {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::int64_t number(const char* name) {
  const std::string text = variable(name);
  return text.empty() ? 0 : std::stoll(text);
}

int open_to_append(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) std::abort();
  return file;
}

struct State;
State& state();

// State of the process: interposed functions have no other storage.
struct State {
  std::mutex mutex;
  std::string folder;               // ends in '/'; empty: none is watched
  std::map<int, std::string> open;  // relative paths by descriptor
  Fault fault;
  CallsSeen seen;
  int log = -1;
  std::string report;

  // Environment of a program that does not call `arm`: LONGSPAN_FAULTS_BELOW is the directory,
  // _CALL and _ERROR are the fault, _RANK is its rank and _LOG is the log. At exit this rank
  // appends "FILES TRANSFERS STRUCK" to the file _TELL.
  State();

  void write_report() const;

  // The directory must exist and be empty.
  void begin_log(const std::string& path);
  void add_to_log(std::initializer_list<std::string> fields, const void* bytes, std::size_t count);
};

void State::begin_log(const std::string& path) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) std::abort();
  log = open_to_append(path);
  add_to_log({"root", std::to_string(status.st_ino)}, nullptr, 0);
}

// Writes all in one call: several processes append to the log.
void State::add_to_log(std::initializer_list<std::string> fields,
                       const void* bytes,
                       std::size_t count) {
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : "\t") + field;
  line += '\n';
  const std::array<iovec, 2> parts = {
      {{line.data(), line.size()}, {const_cast<void*>(bytes), count}}};
  if (writev(log, parts.data(), 2) != static_cast<ssize_t>(line.size() + count)) std::abort();
}

State::State() {
  const Own own;
  if (const std::string below = variable("LONGSPAN_FAULTS_BELOW"); !below.empty())
    folder = std::filesystem::path(below + "/").lexically_normal().string();
  if (const std::string path = variable("LONGSPAN_FAULTS_LOG"); !path.empty()) begin_log(path);
  const std::string rank = variable("OMPI_COMM_WORLD_RANK");
  if ((rank.empty() ? "0" : rank) != std::to_string(number("LONGSPAN_FAULTS_RANK"))) return;
  fault.call = number("LONGSPAN_FAULTS_CALL");
  fault.error = static_cast<int>(number("LONGSPAN_FAULTS_ERROR"));
  report = variable("LONGSPAN_FAULTS_TELL");
  if (!report.empty()) std::atexit([] { state().write_report(); });
}

void State::write_report() const {
  const Own own;
  if (seen.files == 0) return;
  const std::string line =
      std::to_string(seen.files) + " " + std::to_string(seen.transfers) + " " + seen.struck + "\n";
  if (write(open_to_append(report), line.data(), line.size()) < 0) std::abort();
}

// Never destroyed: destructors of other objects may still close files.
State& state() {
  static State& state = *new State;
  return state;
}

// The path relative to the directory; none if it is outside.
std::optional<std::string> below(int directory, const char* path) {
  const State& known = state();
  if (known.folder.empty() || path == nullptr) return {};
  std::filesystem::path whole = path;
  if (whole.is_relative() && directory != AT_FDCWD) {
    const auto found = known.open.find(directory);
    if (found == known.open.end()) return {};
    whole = known.folder + found->second + "/" + path;
  } else if (whole.is_relative()) {
    std::array<char, 4096> here{};
    if (getcwd(here.data(), here.size()) == nullptr) return {};
    whole = std::filesystem::path(here.data()) / path;
  }
  std::string text = (whole / "").lexically_normal().string();
  if (!text.starts_with(known.folder)) return {};
  text = text.substr(known.folder.size());
  if (text.ends_with('/')) text.pop_back();
  return text;
}

bool strikes(const Call& call, const char* name, std::int64_t count) {
  State& known = state();
  if (known.fault.of != Fault::Of::files || count != known.fault.call) return false;
  known.seen.struck = std::string(name) + " " + call.place();
  return true;
}

// initial-exec: other models may allocate at the first access, and allocations read it.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool own_call = false;

}  // namespace

Own::Own() : nested_(std::exchange(own_call, true)) {}
Own::~Own() { own_call = nested_; }
bool Own::any() { return own_call; }

Call::Call(const char* name, int directory, const char* path) : name_(name) {
  if (own_.nested()) return;
  lock_ = std::unique_lock(state().mutex);
  place_ = below(directory, path);
}

Call::Call(const char* name, int descriptor) : name_(name) {
  if (own_.nested()) return;
  lock_ = std::unique_lock(state().mutex);
  if (const auto found = state().open.find(descriptor); found != state().open.end())
    place_ = found->second;
}

bool Call::fails() {
  std::size_t none = 0;
  return fails(none);
}

bool Call::fails(std::size_t& bytes) {
  if (!place_) return false;
  State& known = state();
  if (!known.fault.name.empty() && known.fault.name != name_) return false;
  ++known.seen.files;
  if (bytes > 1) ++known.seen.transfers;
  if (known.fault.error != 0 && strikes(*this, name_, known.seen.files)) {
    errno = known.fault.error;
    return true;
  }
  if (known.fault.error == 0 && bytes > 1 && strikes(*this, name_, known.seen.transfers))
    bytes /= 2;
  return false;
}

void Call::opened(int descriptor) {
  if (own_.nested() || descriptor < 0) return;
  if (place_)
    state().open[descriptor] = *place_;
  else
    state().open.erase(descriptor);
}

void Call::closed(int descriptor) {
  if (!own_.nested()) state().open.erase(descriptor);
}

bool Call::logged() const { return place_ && state().log >= 0; }

std::string Call::position_of(int directory, const char* path) {
  return below(directory, path).value_or("");
}

void Call::log(std::initializer_list<std::string> fields,
               const void* bytes,
               std::size_t count) const {
  state().add_to_log(fields, bytes, count);
}

void watch_files_below(const std::filesystem::path& folder) {
  const Own own;
  const std::lock_guard guard(state().mutex);
  state().folder = (folder / "").lexically_normal().string();
}

void arm(const Fault& fault) {
  {
    const Own own;
    const std::lock_guard guard(state().mutex);
    state().fault = fault;
    state().seen = {};
  }
  arm_memory(fault.of == Fault::Of::memory ? fault.call : 0);
}

CallsSeen disarm() {
  const std::int64_t memory = memory_calls();
  const bool struck = memory_struck();
  arm_memory(0);
  const Own own;
  const std::lock_guard guard(state().mutex);
  state().fault = {};
  CallsSeen seen = std::exchange(state().seen, {});
  seen.memory = memory;
  if (struck) seen.struck = "memory";
  return seen;
}

void log_calls_to(const std::filesystem::path& log) {
  const Own own;
  const std::lock_guard guard(state().mutex);
  state().begin_log(log.string());
}

void mark(const std::string& text) {
  const Own own;
  const std::lock_guard guard(state().mutex);
  state().add_to_log({"mark", text}, nullptr, 0);
}

}  // namespace longspan::testing
