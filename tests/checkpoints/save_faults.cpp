// Saves in which one call fails, and the next start from the files that they leave. The program
// links faulty_files, which intercepts its calls on files. tests/reliability/saving.py controls it.
//
//   checkpoint_save_faults faults FOLDER SCENARIO waiting|background
//     Reads lines "NUMBER files|memory CALL ERROR RANK", one fault each, and answers each with
//     "NUMBER held FILES TRANSFERS MEMORY saved|refused|ended STRUCK" or "NUMBER failed WHY".
//   checkpoint_save_faults sizes FOLDER waiting|background
//     Reads lines "NUMBER PAGES", where PAGES are free on the disk. Answers have the same form.
//   checkpoint_save_faults log FOLDER FILE waiting|background
//     Saves steps, retains two of them, and logs each call that changes the disk.
//   checkpoint_save_faults resume
//     Reads lines "NUMBER FOLDER STEP". The start must find this step or a newer one, undamaged.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "checkpoints/step_directory.h"
#include "framework/distributed/session.h"
#include "tests/checkpoints/checkpoint_testing.h"
#include "tests/checkpoints/save_attempt.h"
#include "tests/support/small_file_system.h"

namespace longspan::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t page = 4096;

// Returns the directory of the steps in a watched folder.
fs::path steps_of(const fs::path& folder) { return folder / "run" / "checkpoints"; }

// Returns an error message if the elements of a verified step differ from the saved ones.
std::string problem_of_found(const Saver& saver, const fs::path& path, std::int64_t step) {
  const TrainingState expected = saver.whole(step);
  TrainingState read = blank(expected);
  Checkpoint::open(path).read(read);
  for (std::size_t i = 0; i < read.tensors.size(); ++i)
    if (bytes_of(read.tensors[i].tensor) != bytes_of(expected.tensors[i].tensor))
      return fmt::format("{}: {} has other elements", path.string(), read.tensors[i].name);
  return {};
}

struct Expected {
  std::int64_t least = 0;  // 0: none is found
  std::int64_t most = 0;
  std::size_t damaged = 0;  // number of newer steps that may be skipped
};

// Searches as a starting run does. Returns an error message or "", and the step in `found`.
std::string problem_of_start(const Saver& saver,
                             const fs::path& steps,
                             const Expected& expected,
                             std::int64_t& found) try {
  const CheckpointSearch search = latest_valid_checkpoint(steps);
  found = search.found ? search.found->step : 0;
  if (found < expected.least || found > expected.most)
    return fmt::format(
        "step {} was found, expected one of {} to {}", found, expected.least, expected.most);
  if (search.skipped.size() > expected.damaged)
    return fmt::format("a step looks whole and is not: {}", search.skipped.front());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(steps, error))
    if (const auto step = step_entry(entry.path().filename().string());
        !step || step->use != StepUse::saved)
      return fmt::format("{} is left over", entry.path().filename().string());
  return search.found ? problem_of_found(saver, search.found->path, found) : "";
} catch (const std::exception& error) {
  return fmt::format("the next start fails: {}", error.what());
}

// Saves the next step. Returns an error message or "".
std::string problem_of_next(const Saver& saver, const fs::path& steps, std::int64_t step) {
  const Attempt next = attempt(saver, steps, step, {});
  if (!next.error.empty()) return fmt::format("the next save fails: {}", next.error);
  if (saver.world.rank() != 0) return {};
  std::int64_t found = 0;
  return problem_of_start(saver, steps, {step, step, 0}, found);
}

// Steps that exist before, and the step to save.
struct Scenario {
  std::string name;
  std::int64_t before = 2;  // the newest good step; 0: none
  std::int64_t saved = 3;

  bool only_starts() const { return name == "start"; }

  static Scenario of(const std::string& name) {
    if (name == "first") return {name, 0, 1};  // empty directory
    if (name == "again") return {name, 1, 2};  // step 2 is damaged and saved again
    if (name == "start") return {name, 2, 2};  // searches without a save
    require(name == "later" || name == "leftovers", "there is no scenario \"{}\"", name);
    return {name, 2, 3};
  }
  void prepare(const Saver& saver, const fs::path& steps) const;
  std::string problem_of(const Attempt& attempt, const Saver& saver, const fs::path& steps) const;
};

void Scenario::prepare(const Saver& saver, const fs::path& steps) const {
  if (name == "first") return;
  for (const std::int64_t step : {1, 2}) saver.save(steps, step);
  if (saver.world.rank() != 0) return;
  if (name == "again") flip_bit(steps / step_name(2) / "rank-00000.h5", 4000, 3);
  if (name != "leftovers" && name != "start") return;
  for (const char* left : {"step-000000003.tmp-dead", "step-000000001.removed-dead"})
    fs::copy(steps / step_name(1), steps / left, fs::copy_options::recursive);
  write_bytes(steps / "step-000000003.lock-dead", "");
  fs::rename(steps / step_name(2), steps / "step-000000002.replaced-dead");
}

// Checks the message and the files of an attempt. Returns an error message or "".
std::string Scenario::problem_of(const Attempt& attempt,
                                 const Saver& saver,
                                 const fs::path& steps) const {
  if (!attempt.documented) return attempt.error;
  const bool is_sentence = !attempt.error.empty() && attempt.error.find('\n') == std::string::npos;
  if (!attempt.saved && !is_sentence) return fmt::format("\"{}\" is no sentence", attempt.error);
  std::int64_t found = 0;
  const std::string problem = problem_of_start(
      saver,
      steps,
      {attempt.saved ? saved : before, saved, name == "again" && !attempt.saved ? 1u : 0u},
      found);
  return problem.empty() || attempt.error.empty() ? problem
                                                  : fmt::format("{} ({})", problem, attempt.error);
}

// Returns an error message if the results of ranks differ. Collective.
std::string agreed(const Attempt& attempt, const Communicator& world) {
  for (const std::string& text :
       world.all_gather(fmt::format("{}{}", attempt.saved, attempt.saved ? "" : attempt.error)))
    if (text != fmt::format("{}{}", attempt.saved, attempt.saved ? "" : attempt.error))
      return fmt::format("ranks disagree: {} and {}", attempt.error, text);
  return {};
}

void answer(const Saver& saver,
            const std::string& number,
            const Attempt& attempt,
            std::string problem) {
  if (saver.world.rank() != 0) return;
  std::ranges::replace(problem, '\n', ' ');  // an answer is a line
  if (!problem.empty())
    fmt::print("{} failed {}, after {} had failed\n", number, problem, attempt.seen.struck);
  else
    fmt::print("{} held {} {} {} {} {}\n",
               number,
               attempt.seen.files,
               attempt.seen.transfers,
               attempt.seen.memory,
               attempt.saved   ? "saved"
               : attempt.ended ? "ended"
                               : "refused",
               attempt.seen.struck);
  std::fflush(stdout);
}

// Returns the next line of standard input on every rank. Collective.
std::optional<std::string> next_line(const Communicator& world) {
  std::string line;
  if (world.rank() == 0 && !std::getline(std::cin, line)) line = "end";
  line = world.broadcast(line, 0);
  return line == "end" ? std::nullopt : std::optional(line);
}

// Tries one fault in a copy of the prepared directory.
void try_fault(const std::string& line,
               const Scenario& scenario,
               const Saver& saver,
               const fs::path& folder,
               const fs::path& prepared) {
  std::istringstream words(line);
  std::string number, of;
  Fault fault;
  int rank = 0;
  words >> number >> of >> fault.call >> fault.error >> rank;
  fault.of = of == "memory" ? Fault::Of::memory : Fault::Of::files;
  const fs::path steps = steps_of(folder);
  if (saver.world.rank() == 0) {
    fs::remove_all(folder / "run");
    if (fs::exists(prepared)) fs::copy(prepared, folder / "run", fs::copy_options::recursive);
  }
  saver.world.barrier();
  const bool has_it = saver.world.rank() == rank;
  const auto try_it = [&] {
    const auto f = scenario.only_starts() ? attempt_to_start : attempt;
    return f(saver, steps, scenario.saved, has_it ? fault : Fault());
  };
  const Attempt result = saver.world.size() == 1 ? in_a_child(try_it) : try_it();
  // Result of the rank with the fault.
  const Attempt faulty = attempt_of(saver.world.broadcast(text_of(result), rank));
  std::string problem = agreed(result, saver.world);
  if (problem.empty() && saver.world.rank() == 0)
    problem = scenario.problem_of(result, saver, steps);
  // Libraries end a process that gets no memory. It must survive all other faults.
  if (problem.empty() && result.ended && fault.of != Fault::Of::memory) problem = result.error;
  problem = saver.world.broadcast(problem, 0);
  if (problem.empty()) problem = problem_of_next(saver, steps, scenario.saved + 1);
  answer(saver, number, result.ended ? result : faulty, problem);
}

void try_faults(const fs::path& folder, const Scenario& scenario, const Saver& saver) {
  const fs::path prepared = folder.string() + ".prepared";
  if (saver.world.rank() == 0) {  // left by an earlier process
    fs::remove_all(folder / "run");
    fs::remove_all(prepared);
  }
  saver.world.barrier();
  scenario.prepare(saver, steps_of(folder));
  if (saver.world.rank() == 0 && fs::exists(folder / "run")) fs::rename(folder / "run", prepared);
  watch_files_below(folder);
  while (const auto line = next_line(saver.world))
    try_fault(*line, scenario, saver, folder, prepared);
}

void try_sizes(const fs::path& folder, const Saver& saver) {
  const Scenario scenario = Scenario::of("later");
  std::int64_t taken = 0;
  {
    const SmallFileSystem disk(folder, std::int64_t{1} << 30);
    require(disk.mounted(), "mounting a small file system is not permitted here");
    scenario.prepare(saver, steps_of(folder));
    const auto space = fs::space(folder);
    taken = static_cast<std::int64_t>(space.capacity - space.free);
  }
  while (const auto line = next_line(saver.world)) {
    std::istringstream words(*line);
    std::string number;
    std::int64_t pages = 0;
    words >> number >> pages;
    const SmallFileSystem disk(folder, taken + pages * page);
    scenario.prepare(saver, steps_of(folder));
    const Attempt result = attempt(saver, steps_of(folder), scenario.saved, {});
    std::string problem = scenario.problem_of(result, saver, steps_of(folder));
    if (problem.empty() && !result.saved &&
        result.error.find("No space left on device") == std::string::npos)
      problem = fmt::format("{} does not say that the disk is full", result.error);
    answer(saver, number, result, problem);
  }
}

// Saves in a child process that exits before the commit.
void save_in_part(const Saver& saver, const fs::path& steps, std::int64_t step) {
  const pid_t child = fork();
  require(child >= 0, "there is no process");
  if (child == 0) {
    CheckpointSave save(steps, info_of(step), saver.world);
    save.write(saver.state(step));
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

void log_saves(const fs::path& folder, const fs::path& log, const Saver& saver) {
  const fs::path steps = steps_of(folder);
  watch_files_below(folder);
  log_calls_to(log);
  const auto save = [&](std::int64_t step) {
    saver.save(steps, step);
    if (saver.world.rank() == 0) mark(fmt::format("saved {}", step));
  };
  for (const std::int64_t step : {1, 2, 3}) {
    save(step);
    saver.remove_older(steps, step);
  }
  if (saver.world.size() == 1) save_in_part(saver, steps, 4);
  save(4);
  // A removal whose fsync fails leaves files that the next save removes.
  if (saver.world.rank() == 0) {
    arm({.call = 1, .error = EIO, .name = "fsync"});
    const std::string why = message_of<Failure>([&] { remove_old_checkpoints(steps, 4, 1); });
    require(!why.empty(), "a removal that was not brought to the disk did not say so");
    disarm();
  }
  save(4);  // replaces the existing step
  save(5);
  saver.remove_older(steps, 5);
}

void resume_all() {
  const Saver saver;
  while (const auto line = next_line({})) {
    std::istringstream words(*line);
    std::string number, folder;
    std::int64_t least = 0, found = 0;
    words >> number >> folder >> least;
    const fs::path steps = steps_of(folder);
    std::string problem = problem_of_start(saver, steps, {least, 5, 0}, found);
    if (problem.empty()) problem = problem_of_next(saver, steps, found + 1);
    answer(saver, number, {}, problem);
  }
}

void work(const std::vector<std::string>& words, const Communicator& world) {
  const std::string usage = "usage: see the head of save_faults.cpp";
  require(words.size() > 1, "{}", usage);
  const Saver saver = {.world = world, .in_background = words.back() == "background"};
  if (words[1] == "faults" && words.size() == 5)
    return try_faults(words[2], Scenario::of(words[3]), saver);
  if (words[1] == "sizes" && words.size() == 4)
    return try_sizes(words[2], {.world = world, .in_background = saver.in_background, .rows = 512});
  if (words[1] == "log" && words.size() == 5) return log_saves(words[2], words[3], saver);
  require(words[1] == "resume" && words.size() == 2, "{}", usage);
  resume_all();
}

}  // namespace
}  // namespace longspan::testing

int main(int count, char** words) {
  longspan::Session session(
      {.time_limit = std::chrono::seconds(60), .reply_timeout = std::chrono::seconds(2)});
  try {
    longspan::testing::work({words, words + count}, session.world());
  } catch (const std::exception& error) {
    if (session.claim_error_report())
      fmt::print(stderr, "checkpoint_save_faults: {}\n", error.what());
    session.abort(1);
  }
}
