// Where the time of some steps of a run goes: a trace of all ranks, and a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/core/timeline.h"
#include "framework/distributed/clock_offset.h"
#include "framework/distributed/process_mesh.h"
#include "framework/profiling/trace_text.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/run_directory.h"

namespace longspan {

// Steps as they are counted in the log, from 1 on, both included.
struct ProfiledSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::string text() const { return fmt::format("{}:{}", first, last); }
};

// Of "5:10"; none where it says something else.
std::optional<ProfiledSteps> profiled_steps(std::string_view text);

// Why a run of so many steps cannot have them profiled, as a sentence; empty where it can.
std::string problem_of(const ProfiledSteps& steps, std::int64_t steps_of_run);

class Profiler {
 public:
  // `mesh`, `directory` and `log` outlive it. Without steps it does nothing.
  Profiler(const std::optional<ProfiledSteps>& steps,
           const ProcessMesh& mesh,
           const RunDirectory& directory,
           const Log& log);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // For the threads that read batches and that save; nullptr without steps.
  Timeline* reader() { return steps_ ? &reader_ : nullptr; }
  Timeline* saver() { return steps_ ? &saver_ : nullptr; }

  // Says so where a run that goes on behind `done` steps misses some of those that are wanted.
  void warn_missed_steps(std::int64_t done) const;
  // Before and after each step. Collective before the first one that is profiled: clocks are
  // compared.
  void begin_step(std::int64_t step);
  void end_step();
  // Whether something is recorded, and all that is wanted was.
  bool has_recorded() const { return recorded_.first > 0; }
  bool is_complete() const { return has_recorded() && recorded_.last == steps_->last; }
  // Collective: ends the recording, writes the trace and the table beside the run, and tells the
  // table in the log. What keeps files from being written is told there too.
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
  ProfiledSteps recorded_;  // first is 0 while nothing is
  RankClock clock_;
  ClockLine line_;
  std::int64_t zero_ = 0;  // on the first rank's clock
};

}  // namespace longspan
