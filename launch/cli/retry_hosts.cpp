#include "launch/cli/retry_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/core/quote.h"
#include "framework/core/system.h"
#include "launch/cli/job.h"
#include "launch/cli/layout_choice.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::array list_options = {"-H", "-host", "--host"};
constexpr std::array file_options = {"-hostfile", "--hostfile", "-machinefile", "--machinefile"};
constexpr std::array default_file_options = {"-default-hostfile", "--default-hostfile"};
constexpr std::array parameter_options = {"-mca", "--mca", "-gmca", "--gmca"};
// Exit code of a probe of this machine. An agent, and what it starts, exits with other codes.
constexpr int local_host_code = 77;
constexpr std::chrono::milliseconds between_answers{20};

bool is_among(const auto& known, const std::string& word) {
  return std::ranges::find(known, word) != known.end();
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<int> number_in(const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

// Parses a word of --host: "name", which is one slot, "name:4" or "name:*".
NamedHost host_of_word(const std::string& word) {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string::npos) return {word, 1};
  return {word.substr(0, colon), number_in(word.substr(colon + 1))};
}

// Parses a line of a file: "name slots=4 max_slots=8 # remark". The name is empty if there is none.
NamedHost host_of_line(std::string line) {
  line = line.substr(0, line.find('#'));
  std::ranges::replace(line, '=', ' ');
  const std::vector<std::string> words = words_of(line);
  if (words.empty()) return {};
  NamedHost host = {words.front()};
  constexpr std::array names_of_slots = {"slots", "cpu", "count"};
  constexpr std::array names_of_user = {"username", "user_name", "user-name"};
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (is_among(names_of_slots, words[i])) host.slots = number_in(words[i + 1]);
    if (is_among(names_of_user, words[i])) host.user = words[i + 1];
  }
  return host;
}

void add(std::vector<NamedHost>& hosts, const NamedHost& host) {
  if (host.name.empty() || host.name.front() == '+' || host.name.front() == '^') return;
  const auto known = std::ranges::find(hosts, host.name, &NamedHost::name);
  if (known == hosts.end())
    hosts.push_back(host);
  else if (known->slots && host.slots)
    *known->slots += *host.slots;
  else
    known->slots.reset();
}

std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string list_without(const std::string& list, const std::vector<std::string>& gone) {
  std::string left;
  for (const std::string& word : split(list, ','))
    if (!word.empty() && !is_among(gone, host_of_word(word).name))
      left += (left.empty() ? "" : ",") + word;
  return left;
}

std::string file_without(const std::string& file,
                         const std::vector<std::string>& gone,
                         const fs::path& written) {
  std::ofstream stream(written);
  for (const std::string& line : lines_of(file))
    if (!is_among(gone, host_of_line(line).name)) stream << line << '\n';
  if (!stream.flush()) throw Failure("{}: cannot be written", written.string());
  return written.string();
}

// Returns the address by which mpirun starts processes on that host.
std::string address_of(const NamedHost& host) {
  const bool has_user = host.user.empty() || host.name.find('@') != std::string::npos;
  return has_user ? host.name : host.user + "@" + host.name;
}

// Returns mpirun's parameter, if it is set.
std::optional<std::string> parameter(const std::vector<std::string>& options,
                                     const std::string& name) {
  std::optional<std::string> found;
  if (const char* const value = std::getenv(("OMPI_MCA_" + name).c_str())) found = value;
  for (std::size_t i = 0; i + 2 < options.size(); ++i)
    if (is_among(parameter_options, options[i]) && options[i + 1] == name) found = options[i + 2];
  return found;
}

bool is_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0;
  const char* const folders = std::getenv("PATH");
  return std::ranges::any_of(split(folders ? folders : "", ':'), [&](const std::string& folder) {
    return !folder.empty() && ::access((folder + "/" + name).c_str(), X_OK) == 0;
  });
}

// Binding succeeds only for an address of this machine.
bool is_this_host(const std::string& name) {
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0) return false;
  bool is_bound = false;
  for (const addrinfo* each = found; each != nullptr && !is_bound; each = each->ai_next) {
    const int socket = ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    is_bound = socket >= 0 && ::bind(socket, each->ai_addr, each->ai_addrlen) == 0;
    if (socket >= 0) ::close(socket);
  }
  ::freeaddrinfo(found);
  return is_bound;
}

// Runs in the child: the exit code is the result.
[[noreturn]] void ask(const std::string& host, std::vector<std::string> words) {
  ::setsid();  // no agent asks the terminal for a password
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  if (const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC); nothing >= 0)
    ::dup2(nothing, STDIN_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (is_this_host(host.substr(host.find('@') + 1))) ::_exit(local_host_code);
  if (words.empty()) ::_exit(1);
  words.push_back(host);
  words.emplace_back("true");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  ::_exit(127);
}

struct Asked {
  std::string host;
  pid_t child = -1;
  bool answers = false;
  bool here = false;

  // Whether the result is known.
  bool has_ended() {
    int status = 0;
    if (child > 0 && ::waitpid(child, &status, WNOHANG) == 0) return false;
    if (child > 0 && WIFEXITED(status)) {
      here = WEXITSTATUS(status) == local_host_code;
      answers = here || WEXITSTATUS(status) == 0;
    }
    child = -1;
    return true;
  }
  void end() {
    if (child <= 0) return;
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);  // in case it had no group of its own yet
    ::waitpid(child, nullptr, 0);
    child = -1;
  }
};

constexpr std::chrono::seconds time_to_answer{10};  // per host

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string names_of(const std::vector<NamedHost>& hosts) {
  std::vector<std::string> names;
  for (const NamedHost& host : hosts) names.push_back(host.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns nothing if a host does not specify its slots.
std::optional<std::int64_t> slots_of(const std::vector<NamedHost>& hosts) {
  std::int64_t sum = 0;
  for (const NamedHost& host : hosts) {
    if (!host.slots) return std::nullopt;
    sum += *host.slots;
  }
  return hosts.empty() ? std::nullopt : std::optional(sum);
}

// Returns a proportional number of ranks for a part of the slots: at least one.
std::int64_t share_of(std::int64_t ranks, std::int64_t part, std::int64_t whole) {
  return std::max<std::int64_t>(1, (ranks * part + whole - 1) / whole);
}

}  // namespace

std::vector<NamedHost> listed_hosts(const std::vector<std::string>& options) {
  std::vector<NamedHost> of_lists, of_files, of_default_files;
  for (std::size_t i = 0; i + 1 < options.size(); ++i) {
    if (is_among(list_options, options[i])) {
      for (const std::string& word : split(options[i + 1], ','))
        if (!word.empty()) add(of_lists, host_of_word(word));
    } else if (is_among(file_options, options[i])) {
      for (const std::string& line : lines_of(options[i + 1])) add(of_files, host_of_line(line));
    } else if (is_among(default_file_options, options[i])) {
      for (const std::string& line : lines_of(options[i + 1]))
        add(of_default_files, host_of_line(line));
    }
  }
  if (of_files.empty()) of_files = of_default_files;
  if (of_files.empty()) return of_lists;
  if (of_lists.empty()) return of_files;
  // Only hosts of the file that a list also names are used.
  std::erase_if(of_files, [&](const NamedHost& host) {
    return std::ranges::find(of_lists, host.name, &NamedHost::name) == of_lists.end();
  });
  return of_files;
}

std::vector<std::string> without_hosts(const std::vector<std::string>& options,
                                       const std::vector<std::string>& gone,
                                       const fs::path& folder) {
  std::vector<std::string> words = options;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    std::string& word = words[i + 1];
    if (is_among(list_options, words[i]))
      word = list_without(word, gone);
    else if (is_among(file_options, words[i]) || is_among(default_file_options, words[i]))
      word = file_without(word, gone, folder / fmt::format("hosts-{}.txt", i));
  }
  return words;
}

std::vector<std::string> host_agent(const std::vector<std::string>& options) {
  const std::string choices = parameter(options, "plm_rsh_agent").value_or("ssh:rsh");
  for (const std::string& choice : split(choices, ':')) {
    std::vector<std::string> words = words_of(choice);
    if (words.empty() || !is_program(words.front())) continue;
    for (const std::string& word : words_of(parameter(options, "plm_rsh_args").value_or("")))
      words.push_back(word);
    return words;
  }
  return {};
}

HostProbe probe_hosts(const std::vector<NamedHost>& hosts,
                      const std::vector<std::string>& agent,
                      std::chrono::seconds limit) {
  std::vector<Asked> asked;
  std::fflush(nullptr);
  for (const NamedHost& host : hosts) {
    const pid_t child = ::fork();
    if (child == 0) ask(address_of(host), agent);
    asked.push_back({host.name, child});
  }
  HostProbe answers;
  const auto end = Clock::now() + limit;
  while (!answers.signal && Clock::now() < end) {
    bool all_ended = true;
    for (Asked& each : asked) all_ended = each.has_ended() && all_ended;
    if (all_ended) break;
    answers.signal = wait_for_signal(between_answers);
  }
  for (Asked& each : asked) {
    each.end();
    if (!each.answers) answers.unreachable.push_back(each.host);
    if (each.here) answers.here.push_back(each.host);
  }
  return answers;
}

std::string silence_of(const std::vector<std::string>& hosts) {
  return fmt::format(
      "no answer from {} within {} s", fmt::join(hosts, ", "), time_to_answer.count());
}

RetryHosts::RetryHosts(const LaunchCommandLine& line, const ConfigurationText& source)
    : line_(line), source_(source), hosts_(listed_hosts(line.options)) {}

UnreachableHosts RetryHosts::ask() {
  if (hosts_.empty()) return {};
  HostProbe answers = probe_hosts(hosts_, host_agent(line_.options), time_to_answer);
  here_ = std::move(answers.here);
  if (answers.unreachable.size() + here_.size() < hosts_.size()) has_answered_ = true;
  if (has_answered_ || answers.signal || answers.unreachable.empty())
    return {.hosts = std::move(answers.unreachable), .was_asked = answers.signal.has_value()};
  if (std::exchange(has_reported_doubt_, true)) return {};
  return {.hosts = {},
          .doubt = fmt::format("{}; no other host has answered yet, so lost hosts cannot be "
                               "detected",
                               silence_of(answers.unreachable))};
}

bool RetryHosts::are_all(const std::vector<std::string>& silent) const {
  return !hosts_.empty() && silent.size() == hosts_.size();
}

// Returns the ranks of an attempt on all hosts, if known.
std::optional<std::int64_t> RetryHosts::usual_ranks() const {
  if (line_.ranks) return line_.ranks;
  if (const auto named = configured_ranks(source_)) return named;
  return slots_of(hosts_);
}

// Returns the ranks that fit on some of the hosts. If hosts have more ranks than slots, or do not
// specify slots, it is their proportional share.
std::optional<std::int64_t> RetryHosts::ranks_left(const std::vector<NamedHost>& left) const {
  const auto usual = usual_ranks(), all = slots_of(hosts_), some = slots_of(left);
  if (!usual) return some;
  if (all.value_or(0) == 0) return share_of(*usual, std::ssize(left), std::ssize(hosts_));
  if (*usual > *all) return share_of(*usual, *some, *all);
  return std::max<std::int64_t>(1, std::min(*usual, *some));
}

// Builds the command without the hosts that do not respond.
void RetryHosts::leave_out(const std::vector<std::string>& silent, PlacedCommand& found) const {
  std::vector<NamedHost> left = hosts_;
  std::erase_if(left, [&](const NamedHost& host) { return is_among(silent, host.name); });
  LaunchCommandLine& line = found.line;
  line.options = without_hosts(line_.options, silent, folder_.path());
  const auto usual = usual_ranks(), ranks = ranks_left(left);
  found.describe += fmt::format(" of {} ({})", names_of(left), silence_of(silent));
  if (!usual || !ranks || *ranks >= *usual) return;
  const bool is_here =
      std::ranges::all_of(left, [&](const NamedHost& host) { return is_among(here_, host.name); });
  const auto most = static_cast<int>(*ranks);
  const ChosenLayout layout =
      choose_layout_of_fewer(source_, most, is_here ? std::optional(most) : std::nullopt);
  if (layout.ranks == 0) {
    found.trouble = fmt::format("{}; no layout of the remaining {} fits{}{}",
                                silence_of(silent),
                                pluralize(*ranks, "rank"),
                                layout.reason.empty() ? "" : ": ",
                                layout.reason);
    return;
  }
  line.ranks = layout.ranks;
  add_settings(line, layout.settings);
  found.describe += fmt::format(": {} of {} fit, with the same data.global_batch_size and {}",
                                *ranks,
                                pluralize(*usual, "rank"),
                                fmt::join(layout.settings, ", "));
}

PlacedCommand RetryHosts::place_command(LaunchCommandLine line,
                                        const std::vector<std::string>& silent) const {
  PlacedCommand found = {.line = std::move(line)};
  if (!silent.empty())
    leave_out(silent, found);
  else if (!hosts_.empty())
    found.describe = " of " + names_of(hosts_);
  return found;
}

TemporaryFolder::TemporaryFolder() {
  const char* const parent = std::getenv("TMPDIR");
  std::string name = std::string(parent ? parent : "/tmp") + "/longspan-run-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    throw Failure("longspan launch: {}: cannot be created: {}", name, errno_message());
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace longspan
