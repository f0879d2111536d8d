// Profiles some steps of a run: a trace of all ranks, and a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/core/timeline.h"
#include "framework/distributed/process_mesh.h"
#include "framework/profiling/trace_text.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/run_directory.h"

namespace longspan {

// Range of steps as numbered in the log, from 1, both ends included.
struct ProfiledSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::string text() const { return fmt::format("{}:{}", first, last); }
};

// Parses "5:10". Returns nothing for other text.
std::optional<ProfiledSteps> profiled_steps(std::string_view text);

// Returns why a run of `steps_of_run` steps cannot profile them, or an empty string if it can.
std::string problem_of(const ProfiledSteps& steps, std::int64_t steps_of_run);

class Profiler {
 public:
  // `mesh`, `directory` and `log` must outlive the profiler. Without steps it does nothing.
  Profiler(const std::optional<ProfiledSteps>& steps,
           const ProcessMesh& mesh,
           const RunDirectory& directory,
           const Log& log);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Timelines for the threads that read batches and save; nullptr without steps.
  Timeline* reader() { return steps_ ? &reader_ : nullptr; }
  Timeline* saver() { return steps_ ? &saver_ : nullptr; }

  // Warns if a run that resumes after `done` steps misses some of the steps to profile.
  void warn_missed_steps(std::int64_t done) const;
  // Call before and after each step. Collective before the first profiled step, to compare clocks.
  void start_step(std::int64_t step);
  void end_step();
  // Whether any step was recorded, and whether all requested steps were.
  bool has_recorded() const { return recorded_.first > 0; }
  bool is_complete() const { return has_recorded() && recorded_.last == steps_->last; }
  // Ends the recording, writes the trace and the table to the run's directory and logs the table.
  // Logs an error if the files cannot be written. Collective.
  void write();

 private:
  void begin();
  TraceOfRank stop();
  bool is_root() const { return mesh_.world.rank() == 0; }

  std::optional<ProfiledSteps> steps_;
  const ProcessMesh& mesh_;
  const RunDirectory& directory_;
  const Log& log_;
  Timeline main_;
  Timeline reader_;
  Timeline saver_;
  std::optional<TimelineScope> here_;
  std::optional<Span> step_;
  ProfiledSteps recorded_;  // first is 0 while nothing is recorded
  RankClock clock_;
  ClockLine line_;
  std::int64_t zero_ = 0;  // on the first rank's clock
};

}  // namespace longspan
