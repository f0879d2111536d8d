#include "framework/distributed/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace longspan {

std::vector<pid_t> descendants_of(pid_t process) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    // The program name, in parentheses, may contain any characters.
    const auto after = text.rfind(')');
    if (after == std::string::npos) continue;
    char state = 0;
    pid_t parent = 0;
    if (std::sscanf(text.c_str() + after + 1, " %c %d", &state, &parent) == 2 && state != 'Z')
      children.emplace(parent, std::stoi(name));
  }
  std::vector<pid_t> found = {process};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (auto [child, end] = children.equal_range(found[i]); child != end; ++child)
      found.push_back(child->second);
  found.erase(found.begin());
  return found;
}

namespace {

namespace fs = std::filesystem;

// Milliseconds to end a job when all machines answer, and to exit in order on request. A daemon
// killed too early is harmless, since mpirun was notified. An mpirun killed too early loses the
// rank's exit code.
constexpr int time_of_mpirun = 5000;
constexpr int time_of_daemon = 3000;
constexpr int time_to_leave = 3000;

int open_process(pid_t id) { return static_cast<int>(::syscall(SYS_pidfd_open, id, 0)); }

void send_signal(int process, int signal) {
  ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0);
}

bool ends_within(int process, int milliseconds) {
  pollfd event = {.fd = process, .events = POLLIN, .revents = 0};
  return ::poll(&event, 1, milliseconds) > 0;
}

bool is_one_of(pid_t process, std::initializer_list<std::string_view> names) {
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  std::getline(file, name);
  // Debian's names are mpirun.openmpi and similar.
  return std::ranges::find(names, name.substr(0, name.find('.'))) != names.end();
}

bool is_mpirun(pid_t process) { return is_one_of(process, {"mpirun", "mpiexec", "orterun"}); }

// Removes Open MPI's files for the ranks of this machine. Its daemon removes them unless it is
// killed.
void remove_files_of(pid_t daemon) {
  const char* const variable = std::getenv("PMIX_SERVER_TMPDIR");
  const fs::path folder = variable ? variable : "";
  if (folder.filename() != fmt::format("pid.{}", daemon)) return;
  std::error_code error;
  fs::remove_all(folder, error);
  fs::remove(folder.parent_path(), error);  // only if no other job uses it
}

}  // namespace

LauncherProcess::LauncherProcess() {
  const pid_t parent = ::getppid();
  const int handle = open_process(parent);
  if (handle < 0) return;
  if ((is_mpirun(parent) || is_one_of(parent, {"orted"})) && ::getppid() == parent) {
    id_ = parent;
    handle_ = handle;
  } else {
    ::close(handle);
  }
}

LauncherProcess::~LauncherProcess() {
  if (handle_ >= 0) ::close(handle_);
}

void LauncherProcess::kill_if_still_running() const {
  if (handle_ >= 0 && ::fork() == 0) watch();
}

void LauncherProcess::watch() const {
  ::setsid();
  sigset_t all;  // resets this rank's signal handling for the child
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::dup2(handle_, 0);
  if (::syscall(SYS_close_range, 1U, ~0U, 0U) != 0)
    for (int descriptor = 1; descriptor < ::getdtablesize(); ++descriptor) ::close(descriptor);
  constexpr int daemon = 0;
  if (ends_within(daemon, is_mpirun(id_) ? time_of_mpirun : time_of_daemon)) ::_exit(0);
  std::vector<int> started;
  for (const pid_t process : descendants_of(id_))
    if (process != ::getpid()) started.push_back(open_process(process));
  remove_files_of(id_);
  // A daemon ends its ranks and itself on SIGTERM. mpirun gets SIGKILL: after a first request it
  // keeps waiting, and a second one crashes Open MPI 4.1. The signal shows `longspan launch` that
  // this is no rank's exit code.
  send_signal(daemon, is_mpirun(id_) ? SIGKILL : SIGTERM);
  if (!ends_within(daemon, time_to_leave)) send_signal(daemon, SIGKILL);
  for (const int process : started) send_signal(process, SIGKILL);
  ::_exit(0);
}

}  // namespace longspan
