#include "launch/cli/launch.h"

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

#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/core/quote.h"
#include "framework/distributed/session.h"
#include "launch/cli/command.h"
#include "launch/cli/layout_choice.h"
#include "mpirun_environment.h"

namespace longspan {
namespace {

constexpr int max_ranks = 1 << 20;
constexpr std::array ranks_options = {"-n", "-np", "--np", "--n", "-c"};  // mpirun's names for it
constexpr const char* restarts_option = "--max-restarts";
constexpr const char* delay_option = "--restart-delay";
constexpr std::array host_options = {"-H",
                                     "-host",
                                     "--host",
                                     "-hostfile",
                                     "--hostfile",
                                     "-machinefile",
                                     "--machinefile",
                                     "-default-hostfile",
                                     "--default-hostfile"};
// If one of these is set, mpirun starts ranks on the machines of a batch job, or on those of a
// Kubernetes operator's file.
constexpr std::array queue_variables = {
    "SLURM_JOB_ID", "PBS_NODEFILE", "LSB_JOBID", "PE_HOSTFILE", "OMPI_MCA_orte_default_hostfile"};

// An option of this program with an integer value.
struct NumberOption {
  std::string_view what;
  int least;
  int most;
};
constexpr NumberOption number_of_ranks = {"a number of ranks", 1, max_ranks};
constexpr NumberOption number_of_restarts = {"a number of restarts", 1, 1'000'000};
constexpr NumberOption restart_delay = {"a delay in seconds", 0, 3600};

int number_in(const std::string& option, const NumberOption& kind, const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < kind.least || number > kind.most)
    throw ConfigurationError("longspan launch: {}: expected an integer from {} to {}, found {}",
                             option,
                             kind.least,
                             kind.most,
                             quote(text));
  return number;
}

const NumberOption* number_option(const std::string& word) {
  if (std::ranges::find(ranks_options, word) != ranks_options.end()) return &number_of_ranks;
  if (word == restarts_option) return &number_of_restarts;
  if (word == delay_option) return &restart_delay;
  return nullptr;
}

// Returns the configuration that `train` would read; nothing for other commands.
std::optional<ConfigurationText> configuration_of(const std::vector<std::string>& command) {
  if (command.front() != "train") return std::nullopt;
  CLI::App app;
  ConfigurationArguments arguments;
  add_configuration(app, arguments);
  std::vector<std::string> words(command.rbegin(), command.rend() - 1);  // in the parser's order
  app.parse(words);
  // A pipe can be read only once, which the ranks do.
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

// Whether mpirun's options set the number of ranks per machine.
bool name_ranks(const std::vector<std::string>& options) {
  constexpr std::array per_place = {
      "-N", "-npernode", "--npernode", "-npersocket", "--npersocket", "-pernode", "--pernode"};
  return std::ranges::any_of(options, [&](const std::string& option) {
    return option.starts_with("ppr:") || std::ranges::find(per_place, option) != per_place.end();
  });
}

// Returns the path of this program. An archive of launch/bundle starts it by a script.
std::string own_program() {
  if (const char* const script = std::getenv("LONGSPAN_PROGRAM")) return script;
  return std::filesystem::read_symlink("/proc/self/exe");
}

void require_mpirun() {
  const char* const variable = std::getenv("PATH");
  for (const std::string& folder : split(variable ? variable : "", ':'))
    if (!folder.empty() && ::access((folder + "/mpirun").c_str(), X_OK) == 0) return;
  throw Failure("longspan launch: mpirun not found in PATH; install Open MPI");
}

// Returns the mpirun command with the settings of launch/mpirun-environment.
std::vector<std::string> mpirun(const LaunchCommandLine& line) {
  std::vector<std::string> words = {
      "/bin/sh", "-c", std::string(mpirun_environment) + "exec \"$@\"", "sh", "mpirun"};
  // On one machine mpirun's code is a rank's. With its own list Open MPI rejects -x.
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

// Returns the line with the number of ranks, if it can be determined before the start, and their
// layout.
LaunchCommandLine with_ranks(const LaunchCommandLine& line,
                             const std::optional<ConfigurationText>& source) {
  LaunchCommandLine settled = line;
  const bool chooses = !line.ranks && !name_ranks(line.options);
  const std::optional<int> named = source ? configured_ranks(*source) : std::nullopt;
  if (chooses) settled.ranks = named;
  if (!chooses || named || !is_local(line.options)) return settled;
  const ChosenLayout chosen = source ? choose_layout(*source) : choose_ranks();
  settled.ranks = chosen.ranks;
  add_settings(settled, chosen.settings);
  if (source)
    std::fprintf(stderr,
                 "longspan launch: starting %s: %s\n",
                 pluralize(chosen.ranks, "rank").c_str(),
                 chosen.reason.c_str());
  return settled;
}

JobResult start_job(const LaunchCommandLine& line,
                    const std::string& program,
                    bool caller_reports) {
  // A single rank needs no mpirun.
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

void add_settings(LaunchCommandLine& line, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    line.command.emplace_back("--set");
    line.command.push_back(setting);
  }
}

LaunchCommandLine read_launch(std::span<char* const> words) {
  LaunchCommandLine line;
  std::size_t i = 0;
  for (; i < words.size() && std::string_view(words[i]) != "--"; ++i) {
    const std::string word = words[i];
    if (word == "-h" || word == "--help") {
      line.help_requested = true;
      return line;
    }
    const NumberOption* const kind = number_option(word);
    if (kind == nullptr) {
      line.options.push_back(word);
      continue;
    }
    if (++i == words.size() || std::string_view(words[i]) == "--")
      throw ConfigurationError("longspan launch: {} requires {}", word, kind->what);
    const int number = number_in(word, *kind, words[i]);
    if (kind == &number_of_ranks)
      line.ranks = number;
    else
      (kind == &number_of_restarts ? line.retry.most : line.retry.wait) = number;
  }
  if (i < words.size())
    line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
  if (line.command.empty())
    throw ConfigurationError(
        "longspan launch: expected \"--\" and a command, found none, as in longspan launch -n 2 -- "
        "train configs/quickstart.yaml");
  if (line.command.front() == "launch" || std::getenv("OMPI_COMM_WORLD_RANK") != nullptr)
    throw ConfigurationError(
        "longspan launch: cannot be nested; name another command after \"--\", and no mpirun "
        "before longspan");
  return line;
}

int run_on_ranks(const LaunchCommandLine& line) {
  block_signals();
  // Reports errors once, before anything starts.
  const std::optional<ConfigurationText> source = configuration_of(line.command);
  const LaunchCommandLine settled = with_ranks(line, source);
  const bool trains = line.command.front() == "train";
  const bool can_read_run = trains && source;
  // Resolved once, as the file at this path may be replaced later.
  const StartJob start = [program = own_program(), can_read_run](const LaunchCommandLine& each) {
    return start_job(each, program, can_read_run);
  };
  if (line.retry.most == 0 && !can_read_run) return start(settled).code;
  if (!trains)
    throw ConfigurationError("longspan launch: {} requires the command train, found {}",
                             restarts_option,
                             line.command.front());
  if (!source)
    throw ConfigurationError("longspan launch: {} requires a config file, found a pipe",
                             restarts_option);
  return run_with_retries(settled, *source, start);
}

Command launch_command() {
  return {
      .name = "launch",
      .description =
          "Start a command on several ranks with mpirun\n"
          "longspan launch [-n RANKS] [--max-restarts N] [--restart-delay SECONDS] "
          "[MPIRUN OPTIONS] -- COMMAND ...\n"
          "-n RANKS: number of ranks (default: the ranks of parallel.* in the configuration, else "
          "one per GPU, else one per NUMA node). If the configuration sets no size of parallel.*, "
          "`train` uses the layout with the shortest step time that `longspan plan` predicts.\n"
          "--max-restarts N: maximum number of restarts of `train` after a rank failed, hung or "
          "was killed, or a host was lost (default: no restarts). `train` resumes from the newest "
          "checkpoint on the hosts of --host and --hostfile that respond, with fewer ranks if "
          "they have fewer slots. Restarts end after three attempts in a row without progress. "
          "The log.txt of the run lists every restart.\n"
          "--restart-delay SECONDS: delay before the first restart, in seconds (default: 5). It "
          "doubles, up to 300 seconds, until a new checkpoint is saved.\n"
          "Ctrl-C, SIGTERM and SIGHUP stop `train` after its current step with a checkpoint and "
          "exit code 75. A second Ctrl-C ends it at once with exit code 130. Other commands end "
          "without a checkpoint.",
      .examples =
          "  longspan launch -n 2 -- train configs/quickstart.yaml\n"
          "  longspan launch -- train configs/quickstart.yaml --set training.max_steps=2000\n"
          "  longspan launch -n 8 --hostfile launch/cluster/hosts.txt -- train my-run.yaml\n"
          "  longspan launch --max-restarts 20 -n 8 --hostfile launch/cluster/hosts.txt -- train "
          "my-run.yaml\n"
          "  longspan launch -n 4 -- evaluate runs/quickstart --split test\n",
      .bind = [](CLI::App&) { return Action(); }};  // it needs no session: main starts it
}

}  // namespace longspan
