#include "launch/cli/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/distributed/launcher.h"
#include "launch/cli/command.h"
#include "launch/cli/job.h"
#include "launch/cli/layout_choice.h"
#include "launch/cli/plan_text.h"
#include "launch/cli/retry.h"
#include "mpirun_environment.h"

namespace longspan {
namespace {

constexpr int most_ranks = 1 << 20;
constexpr std::array ranks_options = {"-n", "-np", "--np", "--n", "-c"};  // mpirun's names for it
constexpr const char* retry_option = "--retry";
constexpr const char* wait_option = "--retry-wait";
constexpr std::array host_options = {"-H",
                                     "-host",
                                     "--host",
                                     "-hostfile",
                                     "--hostfile",
                                     "-machinefile",
                                     "--machinefile",
                                     "-default-hostfile",
                                     "--default-hostfile"};
// Where one of these is set, mpirun starts ranks on the machines of a queue's job, or on those of a
// file that an operator of Kubernetes has made.
constexpr std::array queue_variables = {
    "SLURM_JOB_ID", "PBS_NODEFILE", "LSB_JOBID", "PE_HOSTFILE", "OMPI_MCA_orte_default_hostfile"};

// An option of this program whose value is a whole number.
struct NumberOption {
  std::string_view what;
  int least;
  int most;
};
constexpr NumberOption number_of_ranks = {"a number of ranks", 1, most_ranks};
constexpr NumberOption number_of_retries = {"how often to start again", 1, 1'000'000};
constexpr NumberOption seconds_to_wait = {"the seconds to wait", 0, 3600};

int number_in(const std::string& option, const NumberOption& kind, const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < kind.least || number > kind.most)
    throw ConfigurationError("longspan run: {}: found {}; wanted a whole number from {} to {}",
                             option,
                             quote(text),
                             kind.least,
                             kind.most);
  return number;
}

const NumberOption* number_option(const std::string& word) {
  if (std::ranges::find(ranks_options, word) != ranks_options.end()) return &number_of_ranks;
  if (word == retry_option) return &number_of_retries;
  if (word == wait_option) return &seconds_to_wait;
  return nullptr;
}

// The configuration that `train` would read; none for other commands.
std::optional<ConfigurationText> configuration_of(const std::vector<std::string>& command) {
  if (command.front() != "train") return std::nullopt;
  CLI::App app;
  ConfigurationArguments arguments;
  add_configuration(app, arguments);
  std::vector<std::string> words(command.rbegin(), command.rend() - 1);  // as the parser wants them
  app.parse(words);
  // A pipe can be read once, which is the ranks' part.
  std::error_code error;
  if (std::filesystem::exists(arguments.file, error) &&
      !std::filesystem::is_regular_file(arguments.file, error))
    return std::nullopt;
  return read_configuration(arguments.file, arguments.settings, Communicator());
}

bool is_local(const std::vector<std::string>& options) {
  const auto names_host = [](const std::string& option) {
    return std::ranges::find(host_options, option) != host_options.end();
  };
  return std::ranges::none_of(options, names_host) &&
         std::ranges::none_of(queue_variables,
                              [](const char* name) { return std::getenv(name) != nullptr; });
}

// Whether words for mpirun say how many ranks there are on a machine.
bool name_ranks(const std::vector<std::string>& options) {
  constexpr std::array per_place = {
      "-N", "-npernode", "--npernode", "-npersocket", "--npersocket", "-pernode", "--pernode"};
  return std::ranges::any_of(options, [&](const std::string& option) {
    return option.starts_with("ppr:") || std::ranges::find(per_place, option) != per_place.end();
  });
}

// Where this program lies. An archive of launch/bundle starts it by a script.
std::string own_program() {
  if (const char* const script = std::getenv("LONGSPAN_PROGRAM")) return script;
  return std::filesystem::read_symlink("/proc/self/exe");
}

void require_mpirun() {
  const char* const variable = std::getenv("PATH");
  std::istringstream folders(variable ? variable : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return;
  throw Failure("longspan run: mpirun was not found in PATH; it comes with Open MPI");
}

// mpirun, told what launch/mpirun-environment tells it.
std::vector<std::string> mpirun(const RunCommandLine& line) {
  std::vector<std::string> words = {
      "/bin/sh", "-c", std::string(mpirun_environment) + "exec \"$@\"", "sh", "mpirun"};
  // On one machine mpirun's code is a rank's. With a list of its own Open MPI takes no -x.
  if (!is_local(line.options) && std::getenv("OMPI_MCA_mca_base_env_list") == nullptr) {
    words.emplace_back("-x");
    words.push_back(std::string(end_variable) + "=1");
  }
  if (line.ranks) {
    words.emplace_back("-n");
    words.push_back(fmt::to_string(*line.ranks));
  }
  words.insert(words.end(), line.options.begin(), line.options.end());
  return words;
}

// The line with the number of ranks, where that can be known before it starts, and their layout.
RunCommandLine with_ranks(const RunCommandLine& line,
                          const std::optional<ConfigurationText>& source) {
  RunCommandLine settled = line;
  const bool chooses = !line.ranks && !name_ranks(line.options);
  const std::optional<int> named = source ? named_ranks(*source) : std::nullopt;
  if (chooses) settled.ranks = named;
  if (!chooses || named || !is_local(line.options)) return settled;
  const ChosenLayout chosen = source ? choose_layout(*source) : choose_ranks();
  settled.ranks = chosen.ranks;
  add_settings(settled, chosen.settings);
  if (source)
    std::fprintf(stderr,
                 "longspan run: starts %s, since %s\n",
                 pluralize(chosen.ranks, "rank").c_str(),
                 chosen.reason.c_str());
  return settled;
}

JobResult start_job(const RunCommandLine& line, const std::string& program, bool caller_reports) {
  // A rank alone needs no mpirun.
  std::vector<std::string> words;
  const bool by_mpirun = line.ranks != 1 || !line.options.empty();
  if (by_mpirun) {
    require_mpirun();
    words = mpirun(line);
  }
  words.push_back(program);
  words.insert(words.end(), line.command.begin(), line.command.end());
  return run_job({.command = words,
                  .by_mpirun = by_mpirun,
                  .saves = line.command.front() == "train",
                  .is_local = is_local(line.options),
                  .caller_reports = caller_reports});
}

}  // namespace

void add_settings(RunCommandLine& line, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    line.command.emplace_back("--set");
    line.command.push_back(setting);
  }
}

RunCommandLine read_run(std::span<char* const> words) {
  RunCommandLine line;
  std::size_t i = 0;
  for (; i < words.size() && std::string_view(words[i]) != "--"; ++i) {
    const std::string word = words[i];
    if (word == "-h" || word == "--help") {
      line.wants_help = true;
      return line;
    }
    const NumberOption* const kind = number_option(word);
    if (kind == nullptr) {
      line.options.push_back(word);
      continue;
    }
    if (++i == words.size() || std::string_view(words[i]) == "--")
      throw ConfigurationError("longspan run: {} needs {}", word, kind->what);
    const int number = number_in(word, *kind, words[i]);
    if (kind == &number_of_ranks)
      line.ranks = number;
    else
      (kind == &number_of_retries ? line.retry.most : line.retry.wait) = number;
  }
  if (i < words.size())
    line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
  if (line.command.empty())
    throw ConfigurationError(
        "longspan run: found no command; wanted \"--\" and a command behind it, as in longspan run "
        "-n 2 -- train configs/quickstart.yaml");
  if (line.command.front() == "run" || std::getenv("OMPI_COMM_WORLD_RANK") != nullptr)
    throw ConfigurationError(
        "longspan run: is started on ranks already; wanted another command behind \"--\", and no "
        "mpirun before it");
  return line;
}

int run_on_ranks(const RunCommandLine& line) {
  block_signals();
  // What is wrong is told once, and before anything starts.
  const std::optional<ConfigurationText> source = configuration_of(line.command);
  const RunCommandLine settled = with_ranks(line, source);
  const bool trains = line.command.front() == "train";
  const bool can_read_run = trains && source;
  // Looked up once: where it lies something else may lie later.
  const StartJob start = [program = own_program(), can_read_run](const RunCommandLine& each) {
    return start_job(each, program, can_read_run);
  };
  if (line.retry.most == 0 && !can_read_run) return start(settled).code;
  if (!trains)
    throw ConfigurationError(
        "longspan run: {} is for train, which goes on from what it has saved; found {}",
        retry_option,
        line.command.front());
  if (!source)
    throw ConfigurationError(
        "longspan run: {} needs a configuration that can be read again: a file", retry_option);
  return run_with_retries(settled, *source, start);
}

Command run_command() {
  return {
      .name = "run",
      .description =
          "Start a command on several ranks by mpirun, so that Ctrl-C saves and stops: longspan "
          "run [-n RANKS] [--retry N] [--retry-wait SECONDS] [OPTIONS OF MPIRUN] -- COMMAND ...\n"
          "Without -n as many ranks as parallel.* of the configuration names, or one for each "
          "GPU, or without one for each memory (NUMA node) of this machine, in the layout that "
          "is fastest by plan. Ctrl-C, SIGTERM and SIGHUP, as when a terminal is closed, ask "
          "`train` to finish its step, save and stop: exit code 75. A second Ctrl-C ends it at "
          "once: exit code 130. Other commands have nothing to save and end.\n"
          "With --retry N `train` is started again, up to N times, where a rank failed, hung or "
          "was "
          "killed or where a host is gone: on the hosts of --host and --hostfile that answer, in a "
          "layout of fewer ranks where they have fewer places, from the newest checkpoint. It "
          "waits "
          "--retry-wait seconds (5) before, twice as long each time until something new is saved, "
          "300 at most, and gives up after three attempts in a row that came no further. The run's "
          "log.txt tells of each.",
      .examples =
          "  longspan run -n 2 -- train configs/quickstart.yaml\n"
          "  longspan run -- train configs/quickstart.yaml --set training.max_steps=2000\n"
          "  longspan run -n 8 --hostfile launch/cluster/hosts.txt -- train my-run.yaml\n"
          "  longspan run --retry 20 -n 8 --hostfile launch/cluster/hosts.txt -- train "
          "my-run.yaml\n"
          "  longspan run -n 4 -- evaluate runs/quickstart --split test\n",
      .bind = [](CLI::App&) { return Action(); }};  // it needs no session: main starts it
}

}  // namespace longspan
