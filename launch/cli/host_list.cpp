#include "launch/cli/host_list.h"

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
#include <string_view>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "launch/cli/job.h"

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

}  // namespace longspan
