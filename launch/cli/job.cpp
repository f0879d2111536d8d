#include "launch/cli/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "checkpoints/files.h"
#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/core/system.h"
#include "framework/distributed/processes.h"
#include "framework/distributed/session.h"

namespace longspan {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

// Limits until the first rank reports: before a hint is printed, before the job is ended, and
// before it is ended after a stop request.
constexpr seconds start_limit{30};
constexpr seconds max_start_time{300};
constexpr seconds asked_start{10};
constexpr std::chrono::milliseconds tick{500};
constexpr seconds reminder{10};    // between messages while waiting
constexpr seconds time_to_end{5};  // from SIGTERM to SIGKILL
// For mpirun to end after a rank has reported why: a local rank ends it earlier.
constexpr seconds time_to_abort{8};
constexpr std::array asking_signals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

void say(const std::string& sentence) {
  std::fprintf(stderr, "longspan launch: %s\n", sentence.c_str());
}

bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Signals that nohup, or a shell for background processes, set to be ignored remain ignored.
sigset_t asking_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : asking_signals)
    if ((number != SIGHUP && number != SIGINT) || !is_ignored(number)) sigaddset(&set, number);
  return set;
}

sigset_t handled_signals() {
  sigset_t set = asking_set();
  sigaddset(&set, SIGCHLD);
  return set;
}

// Returns a descriptor from which signals are read.
Descriptor open_signals() {
  block_signals();
  std::signal(SIGCHLD, SIG_DFL);  // required to wait for children that end
  std::signal(SIGPIPE, SIG_IGN);  // the reader of the messages may exit
  const sigset_t set = handled_signals();
  return Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// The socket on which ranks of this machine report their activity. Its name is passed in the
// environment. Undefined if it cannot be created.
Descriptor open_ear() {
  ::unsetenv(launcher_variable);
  const std::string name =
      fmt::format("longspan-{}-{:x}", ::getpid(), Clock::now().time_since_epoch().count());
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0)
    ::setenv(launcher_variable, name.c_str(), 1);
  else
    socket = Descriptor();
  return socket;
}

struct Pipe {
  Descriptor reads;
  Descriptor writes;
};
Pipe open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Failure("longspan launch: {}", errno_message());
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Runs in the child, between fork and exec.
[[noreturn]] void become(char* const* words, pid_t parent, int trouble) {
  ::setpgid(0, 0);
  // If this process is killed the job saves and stops, as nobody could request it afterwards.
  ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (::getppid() != parent) ::_exit(1);
  // It may write to the terminal though another group controls it.
  std::signal(SIGTTOU, SIG_IGN);
  // SIGPIPE stays ignored: mpirun installs its own handler, but not during startup and exit.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(words[0], words);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(trouble, &error, sizeof error);
  ::_exit(127);
}

// `errors`: its standard error, if different from this process's.
pid_t start(const std::vector<std::string>& command, const Descriptor& errors) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  auto [reads, writes] = open_pipe();
  const pid_t parent = ::getpid();
  // Terminal input belongs to this process.
  const bool reads_input = ::isatty(STDIN_FILENO) == 0;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw Failure("longspan launch: fork failed: {}", errno_message());
  if (child == 0) {
    if (!reads_input)
      if (const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC); nothing >= 0)
        ::dup2(nothing, STDIN_FILENO);
    if (errors.defined()) ::dup2(errors.get(), STDERR_FILENO);
    become(words.data(), parent, writes.get());
  }
  ::setpgid(child, child);
  writes = Descriptor();
  int error = 0;
  if (::read(reads.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(child, nullptr, 0);
    throw Failure(
        "longspan launch: {} cannot be started: {}", command.front(), errno_message(error));
  }
  return child;
}

std::string room_in(const std::string& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  return error ? fmt::format("{}: {}", folder, error.message())
               : fmt::format(
                     "{}: {} free", folder, format_bytes(static_cast<double>(space.available)));
}

class JobMonitor {
 public:
  explicit JobMonitor(const Job& job)
      : job_(job), signals_(open_signals()), ear_(open_ear()), child_(begin()) {}
  JobMonitor(const JobMonitor&) = delete;
  JobMonitor& operator=(const JobMonitor&) = delete;

  JobResult wait();

 private:
  // Processes whose parents end become children of this one, so that none is lost.
  pid_t begin() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!job_.by_mpirun) return start(job_.command, {});
    Pipe pipe = open_pipe();
    ::fcntl(pipe.reads.get(), F_SETFL, O_NONBLOCK);
    errors_ = std::move(pipe.reads);
    return start(job_.command, pipe.writes);
  }
  void pass_errors();
  void read_signals();
  void take(int signal);
  void ask();
  void end(int code);
  void listen();
  void poll_clock();
  void kill_all() const;
  void end_without_mpirun();
  void reap();
  void end_rest() const;
  int exit_code() const;
  std::string waits_for() const;
  // Remote ranks cannot report.
  bool receives_from_ranks() const { return job_.is_local && ear_.defined(); }
  // While mpirun starts its daemons on other machines SIGUSR1 would end it with its own error.
  bool starts_elsewhere() const {
    return !job_.is_local && doing_.empty() && Clock::now() - started_ < job_.daemons_start;
  }

  const Job& job_;
  Descriptor signals_;
  Descriptor ear_;
  Descriptor errors_;  // mpirun's standard error
  MpirunStderrFilter words_;
  Clock::time_point errors_came_ = Clock::now();
  pid_t child_;
  std::string doing_;  // last report of a rank; empty before the first has started
  std::optional<int> status_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point spoke_ = Clock::now();
  std::optional<Clock::time_point> asked_;
  std::optional<Clock::time_point> failed_;  // a rank has reported why the job ends
  bool passes_later_ = false;                // request mpirun once it has started its daemons
  std::optional<Clock::time_point> ended_;
  int end_code_ = 0;
  bool has_given_hint_ = false;
};

std::string JobMonitor::waits_for() const {
  if (!doing_.empty()) return doing_;
  return receives_from_ranks() ? "the start of the ranks" : "the ranks";
}

void JobMonitor::ask() {
  if (asked_) return;
  asked_ = spoke_ = Clock::now();
  say(
      fmt::format("stop requested; waiting for {}, then for the checkpoint. Press Ctrl-C again to "
                  "end the job now and lose all work since its last checkpoint",
                  waits_for()));
  passes_later_ = starts_elsewhere();
  if (!passes_later_) ::kill(child_, SIGUSR1);
}

void JobMonitor::end(int code) {
  if (ended_) return;
  ended_ = Clock::now();
  end_code_ = code;
  // A single rank would treat SIGTERM as a request to save.
  ::kill(child_, job_.by_mpirun || !job_.saves ? SIGTERM : SIGKILL);
}

void JobMonitor::take(int signal) {
  if (signal == SIGINT) std::fputc('\n', stderr);  // after the terminal's ^C
  if (!job_.saves) return end(128 + signal);
  if (asked_ && signal == SIGINT) {
    say("ending the job now");
    return end(128 + signal);
  }
  ask();
}

void JobMonitor::read_signals() {
  signalfd_siginfo signal = {};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    if (signal.ssi_signo == SIGCHLD)
      reap();
    else
      take(static_cast<int>(signal.ssi_signo));
  }
}

void JobMonitor::listen() {
  char text[256];
  ssize_t length = 0;
  while ((length = ::recv(ear_.get(), text, sizeof text, 0)) >= 0) {
    const bool is_first = doing_.empty();
    doing_.assign(text, static_cast<std::size_t>(length));
    // A stop request during startup may have reached no rank.
    if (is_first && asked_) {
      passes_later_ = false;
      ::kill(child_, SIGUSR1);
    }
  }
}

void JobMonitor::pass_errors() {
  if (!errors_.defined()) return;
  char text[4096];
  ssize_t length = 0;
  std::string shown;
  while ((length = ::read(errors_.get(), text, sizeof text)) > 0) {
    errors_came_ = Clock::now();
    shown += words_.push({text, static_cast<std::size_t>(length)});
  }
  const bool is_over = length == 0 || status_;
  if (is_over || Clock::now() - errors_came_ > tick) shown += words_.flush();
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  if (is_over) errors_ = Descriptor();
}

void JobMonitor::reap() {
  int status = 0;
  while (const pid_t child = ::waitpid(-1, &status, WNOHANG)) {
    if (child < 0) break;
    if (child == child_) status_ = status;
  }
}

void JobMonitor::kill_all() const {
  for (const pid_t process : descendants_of(::getpid())) ::kill(process, SIGKILL);
}

void JobMonitor::end_without_mpirun() {
  ended_ = Clock::now();
  const bool is_stop = words_.end_code() == static_cast<int>(ExitCode::stopped);
  end_code_ = is_stop && !asked_ ? static_cast<int>(ExitCode::rank_failed) : *words_.end_code();
  say(fmt::format("mpirun is still running {} s after a rank ended (host unreachable?); killing it",
                  time_to_abort.count()));
  kill_all();
}

void JobMonitor::poll_clock() {
  const auto now = Clock::now();
  if (words_.end_code() && !failed_) failed_ = now;
  if (ended_) {
    if (now - *ended_ > time_to_end) kill_all();
    return;
  }
  if (failed_ && !job_.is_local && now - *failed_ > time_to_abort) return end_without_mpirun();
  if (receives_from_ranks() && doing_.empty()) {
    if (asked_ && now - *asked_ > asked_start) {
      say("no rank has started, nothing to save; ending the job now");
      return end(static_cast<int>(ExitCode::stopped));
    }
    if (now - started_ > max_start_time) {
      say(fmt::format("no rank has started after {} s; ending the job", max_start_time.count()));
      return end(static_cast<int>(ExitCode::rank_failed));
    }
    if (!has_given_hint_ && now - started_ > start_limit) {
      has_given_hint_ = true;
      const char* const temporary = std::getenv("TMPDIR");
      say(
          fmt::format("no rank has started after {} s; Open MPI requires free space in /dev/shm "
                      "and in TMPDIR ({}; {})",
                      start_limit.count(),
                      room_in("/dev/shm"),
                      room_in(temporary ? temporary : "/tmp")));
    }
  }
  if (passes_later_ && !starts_elsewhere()) {
    passes_later_ = false;
    ::kill(child_, SIGUSR1);
  }
  if (asked_ && now - spoke_ > reminder) {
    spoke_ = now;
    if (!passes_later_) ::kill(child_, SIGUSR1);  // the first one may have been lost during startup
    say(fmt::format("waiting for {} ({} s so far)",
                    waits_for(),
                    std::chrono::duration_cast<seconds>(now - *asked_).count()));
  }
}

int JobMonitor::exit_code() const {
  const int code = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
  // The signal ends a rank until it installs a handler, which is before it trains.
  if (asked_ && !ended_ && code == 128 + SIGUSR1) {
    say("stopped before training started; nothing to save");
    return static_cast<int>(ExitCode::stopped);
  }
  if (ended_) return end_code_;
  if (job_.by_mpirun && !job_.is_local) {
    // The code that a rank reported counts. mpirun has its own code if it cannot reach a machine,
    // and a rank that gave up ends an mpirun that waits for one. If a signal ended a rank, mpirun
    // reports that. It then asks the others to end, which they may treat as a stop request.
    const bool is_signal_of_rank = WIFEXITED(*status_) && code > 128;
    if (const auto reported = words_.end_code(); reported && !is_signal_of_rank) {
      const bool is_stop = *reported == static_cast<int>(ExitCode::stopped);
      if (!is_stop || asked_ || code == *reported) return *reported;
    }
    constexpr std::array of_ranks = {ExitCode::configuration,
                                     ExitCode::data,
                                     ExitCode::diverged,
                                     ExitCode::rank_failed,
                                     ExitCode::stopped};
    const bool is_of_rank =
        std::ranges::find(of_ranks, static_cast<ExitCode>(code)) != of_ranks.end();
    if (words_.reports_lost_machine() && !is_of_rank) {
      say(fmt::format(
          "a host of the job is lost, unreachable or has no Open MPI{}",
          job_.saves ? "; run the same command to resume from the newest checkpoint" : ""));
      return static_cast<int>(ExitCode::rank_failed);
    }
    // If asked before its daemons have started, mpirun ends with an unspecified code.
    const bool is_own_code = words_.reports_missing_daemon() || (code > 0 && code < 128);
    if (asked_ && !passes_later_ && doing_.empty() && !is_of_rank && is_own_code) {
      say("mpirun ended before any rank reported; existing checkpoints are kept");
      return static_cast<int>(ExitCode::stopped);
    }
  }
  // mpirun reports it itself.
  if (code > 128 && !job_.by_mpirun && !job_.caller_reports)
    say(fmt::format("a rank was killed by signal {} ({}){}",
                    code - 128,
                    ::strsignal(code - 128),
                    code - 128 == SIGKILL ? ", which the kernel sends when memory runs out" : ""));
  return code;
}

// Ranks end with mpirun; any that it lost track of end here. The next job must find nothing of this
// one, such as its lock on the run's directory.
void JobMonitor::end_rest() const {
  const auto limit = Clock::now() + time_to_end;
  do {
    kill_all();  // repeated for processes that started during the scan
    ::poll(nullptr, 0, 1);
  } while (::waitpid(-1, nullptr, WNOHANG) >= 0 && Clock::now() < limit);
}

JobResult JobMonitor::wait() {
  while (!status_) {
    std::array<pollfd, 3> events = {};  // poll skips entries without a descriptor
    const std::array descriptors = {signals_.get(), ear_.get(), errors_.get()};
    for (std::size_t i = 0; i < events.size(); ++i)
      events[i] = {.fd = descriptors[i], .events = POLLIN, .revents = 0};
    ::poll(events.data(), events.size(), static_cast<int>(tick.count()));
    listen();
    pass_errors();
    read_signals();
    poll_clock();
  }
  pass_errors();
  end_rest();
  return {exit_code(), asked_.has_value()};
}

}  // namespace

void block_signals() {
  const sigset_t set = handled_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

std::optional<int> wait_for_signal(std::chrono::milliseconds time) {
  const sigset_t set = asking_set();
  const auto whole = std::chrono::duration_cast<seconds>(time);
  const timespec limit = {.tv_sec = whole.count(),
                          .tv_nsec = std::chrono::nanoseconds(time - whole).count()};
  const int signal = ::sigtimedwait(&set, nullptr, &limit);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

JobResult run_job(const Job& job) { return JobMonitor(job).wait(); }

}  // namespace longspan
