#include "tests/checkpoints/save_attempt.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <sstream>

#include "checkpoints/background_save.h"
#include "framework/core/crash_handler.h"
#include "tests/checkpoints/checkpoint_testing.h"

namespace longspan::testing {
namespace {

namespace fs = std::filesystem;

constexpr int retained_steps = 2;

// Returns the attempt of a process that ended early. One line of error and a matching exit code are
// expected.
Attempt sudden_end(std::string output, int status) {
  const bool is_aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  const bool has_code = WIFEXITED(status)
                            ? WEXITSTATUS(status) == static_cast<int>(ExitCode::failure)
                            : is_aborted || WTERMSIG(status) == SIGSEGV;
  // The C library prints text before the message.
  if (const std::size_t at = output.find("longspan: "); is_aborted && at != std::string::npos)
    output.erase(0, at);
  const bool is_line = output.starts_with("longspan: ") && output.find('\n') + 1 == output.size();
  if (has_code && is_line) return {.ended = true, .error = output.substr(0, output.size() - 1)};
  return {.documented = false,
          .ended = true,
          .error = fmt::format("the process ended by {:#x} and said \"{}\"", status, output)};
}

template <typename Kind>
bool is_a(const std::exception& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}

// Runs f(result) with the fault. `is_documented` returns whether a run may end with this error.
// Allocation failures are always documented.
template <typename F, typename IsDocumented>
Attempt attempt_with(const Fault& fault, const F& f, const IsDocumented& is_documented) {
  Attempt result;
  arm(fault);
  try {
    f(result);
  } catch (const std::exception& error) {
    result.error = error.what();
    result.documented = is_a<std::bad_alloc>(error) || is_documented(error, result);
  }
  result.seen = disarm();
  return result;
}

}  // namespace

TrainingState Saver::whole(std::int64_t step) const {
  const auto seed = static_cast<std::uint64_t>(step);
  TrainingState state = small_state(seed);
  if (rows > 0)
    state.add("layers/2/weight", random_bits({rows, 256}, DType::f32, Random(seed)), true);
  return state;
}

TrainingState Saver::state(std::int64_t step) const {
  return divided(whole(step), world.size())[static_cast<std::size_t>(world.rank())];
}

void Saver::make_run(const fs::path& steps) const {
  if (world.rank() == 0) fs::create_directory(steps.parent_path());
}

void Saver::save(const fs::path& steps, std::int64_t step) const {
  make_run(steps);
  save(steps, step, state(step));
}

void Saver::save(const fs::path& steps, std::int64_t step, const TrainingState& held) const {
  const CheckpointInfo info = info_of(step, world.size());
  if (in_background)
    BackgroundSave(steps, info, held, world).commit();
  else
    save_checkpoint(steps, info, held, world);
}

void Saver::remove_older(const fs::path& steps, std::int64_t step) const {
  if (world.rank() == 0) remove_old_checkpoints(steps, step, retained_steps);
}

Attempt attempt(const Saver& saver, const fs::path& steps, std::int64_t step, const Fault& fault) {
  const TrainingState held = saver.state(step);
  saver.make_run(steps);
  const auto save = [&](Attempt& result) {
    saver.save(steps, step, held);
    result.saved = true;
    saver.remove_older(steps, step);
  };
  // A DataError after the save reports that older steps could not be listed.
  return attempt_with(fault, save, [](const std::exception& error, const Attempt& result) {
    return is_a<Failure>(error) || (is_a<DataError>(error) && result.saved);
  });
}

Attempt attempt_to_start(const Saver& saver,
                         const fs::path& steps,
                         std::int64_t step,
                         const Fault& fault) {
  const auto start = [&](Attempt& result) {
    const CheckpointSearch search = latest_valid_checkpoint(steps, saver.world);
    result.saved = search.found && search.found->step == step;
    if (!search.skipped.empty()) result.error = search.skipped.front();
  };
  return attempt_with(fault, start, [](const std::exception& error, const Attempt&) {
    return is_a<DataError>(error);
  });
}

std::string text_of(const Attempt& attempt) {
  return fmt::format("{:d} {:d} {} {} {}\n{}\n{}",
                     attempt.saved,
                     attempt.documented,
                     attempt.seen.files,
                     attempt.seen.transfers,
                     attempt.seen.memory,
                     attempt.seen.struck,
                     attempt.error);
}

Attempt attempt_of(const std::string& text) {
  Attempt attempt;
  std::istringstream lines(text);
  lines >> attempt.saved >> attempt.documented >> attempt.seen.files >> attempt.seen.transfers >>
      attempt.seen.memory;
  lines.ignore();
  std::getline(lines, attempt.seen.struck);
  std::getline(lines, attempt.error, '\0');
  return attempt;
}

Attempt in_a_child(const std::function<Attempt()>& f) {
  int pipe_ends[2];
  require(pipe(pipe_ends) == 0, "there is no pipe");
  const pid_t child = fork();
  require(child >= 0, "there is no process");
  if (child == 0) {
    install_crash_handlers();
    dup2(pipe_ends[1], STDERR_FILENO);
    const std::string text = text_of(f());
    const bool is_written = write(pipe_ends[1], text.data(), text.size()) > 0;
    _exit(is_written ? 0 : 1);
  }
  close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(pipe_ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) return sudden_end(text, status);
  return attempt_of(text);
}

}  // namespace longspan::testing
