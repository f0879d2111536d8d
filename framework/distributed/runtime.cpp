#include "framework/distributed/runtime.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "framework/core/span.h"

namespace longspan {
namespace {

using Clock = std::chrono::steady_clock;

// A job of one process skips MPI, which speeds up its start.
bool started_with_others() {
  if (const char* size = std::getenv("OMPI_COMM_WORLD_SIZE")) return std::atoi(size) > 1;
  for (const char* name : {"PMIX_RANK", "PMI_RANK", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (std::getenv(name)) return true;
  return false;
}

int usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// Silences Open MPI, which adds eight lines to the error message on MPI_Abort. In MPI_Finalize it
// would report the segments that were unlinked. mpirun's quiet flag is read at each message, in
// ranks too. Messages at startup and of mpirun itself still appear.
void quiet_open_mpi() {
  if (void* const quiet = dlsym(RTLD_DEFAULT, "orte_execute_quiet"))
    *static_cast<bool*>(quiet) = true;
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The operation that this rank waits for, for questions of other ranks. Waits do not nest, except
// for a barrier in a destructor.
struct Runtime::Waiting {
  Waiting(Runtime& runtime, const Group& in, const PendingCollective& what)
      : owner(runtime), group(in), operation(what), outer(runtime.waiting_) {
    owner.waiting_ = this;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { owner.waiting_ = outer; }

  Runtime& owner;
  const Group& group;
  const PendingCollective& operation;
  const Waiting* outer;
};

Runtime::Runtime(const SessionOptions& options) : options_(options), limit_(options.time_limit) {
  if (!started_with_others()) return;
  init_mpi();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm local;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &local_rank_);
  MPI_Comm_size(local, &local_size_);
  MPI_Comm_free(&local);
  oversubscribed_ = local_size_ > usable_cores();
  MPI_Comm control;
  MPI_Comm_dup(MPI_COMM_WORLD, &control);
  MPI_Comm_set_errhandler(control, MPI_ERRORS_RETURN);
  control_ = std::make_unique<ControlChannel>(
      control, [this](std::uint64_t group) { return describe(group); });
}

void Runtime::init_mpi() {
  int ready = 0;
  MPI_Initialized(&ready);
  require(!ready || options_.joins_running_mpi,
          "MPI is already initialized; a process can create only one Session");
  int over = 0;
  MPI_Finalized(&over);
  if (over) throw RankError("MPI was finalized and cannot be initialized again");
  int level = 0;
  if (!ready && MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
    throw RankError("MPI initialization failed");
  mpi_ = true;
  ends_mpi_ = !ready;
}

// Open MPI keeps message buffers in files of /dev/shm, which remain when mpirun is killed. Each
// rank has mapped all of them by now, so they work without names.
void Runtime::unlink_mpi_segments() const {
  if (!ends_mpi_) return;  // the MPI's owner would report them as missing
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (const auto path = line.find("/dev/shm/vader_segment."); path != line.npos)
      unlink(line.substr(path).c_str());
}

RankReport Runtime::describe(std::uint64_t group) const {
  RankReport report;
  report.ledger.rank = rank_;
  for (const Group* known : groups_)
    if (known->id == group) report.ledger.records = known->ledger.records();
  if (waiting_)
    report.waiting = fmt::format("in collective {} on \"{}\" ({})",
                                 waiting_->operation.sequence,
                                 waiting_->group.name,
                                 to_string(waiting_->group.record_of(waiting_->operation)));
  else
    report.waiting = failed_wait_;
  return report;
}

bool Runtime::progress() {
  bool moved = false;
  for (Group* group : groups_)
    if (!group->failure) moved |= group->progress();
  return moved;
}

void Runtime::back_off(std::uint64_t idle) const {
  // Another rank may need this core: yielding is cheap when none does.
  if (idle < 64 && !oversubscribed_)
    pause_core();
  else if (idle < (oversubscribed_ ? 64 : 20000))
    sched_yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void Runtime::wait(Group& group, const PendingCollective& operation) {
  if (operation.done) return;
  if (group.failure) throw RankError("{}", *group.failure);
  require(!finished_, "waited for a collective after the end of the Session");
  const Span span(words_of(group, operation, ActivityKind::idle));
  const auto began = Clock::now();
  wait_until([&] { return operation.done; },
             [&] {
               return Awaited{&group, &operation, operation.sequence};
             });
  waited_ += Clock::now() - began;
}

void Runtime::wait(CUstream_st* stream) {
  wait_until([&] { return gpu::done(stream); }, [&] { return under_way_on_gpu(); });
  // The stream also advances when an earlier collective has failed.
  progress();
  for (Group* group : groups_) {
    if (!group->nccl) continue;
    if (group->failure) throw RankError("{}", *group->failure);
    const PendingCollective* const operation = group->nccl->under_way();
    if (operation && !group->nccl->error().empty())
      fail_collective(*group, {*group, *operation, Seconds(0)}, true);
  }
}

Runtime::Awaited Runtime::under_way_on_gpu() const {
  for (Group* group : groups_)
    if (group->nccl && !group->failure)
      if (const PendingCollective* operation = group->nccl->under_way())
        return {group, operation, operation->sequence};
  return {};
}

template <typename Finished, typename Find>
void Runtime::wait_until(const Finished& finished, const Find& awaited) {
  Awaited last;
  auto began = Clock::now();
  auto last_look = began;
  for (std::uint64_t idle = 0; !finished(); ++idle) {
    if (progress()) idle = 0;
    if (finished()) return;
    back_off(idle);
    if (idle % 64 != 63) continue;
    const auto now = Clock::now();
    const Awaited current = awaited();
    if (current != std::exchange(last, current)) began = now;
    if (!current.operation) {
      control_->poll();
      continue;
    }
    const Waiting here(*this, *current.group, *current.operation);
    control_->poll();
    const Wait wait{*current.group, *current.operation, now - began};
    if (now - last_look > std::chrono::milliseconds(5)) {
      last_look = now;
      check_for_mismatch(wait);
    }
    if (wait.waited > limit_) fail_collective(*current.group, wait, true);
  }
}

void Runtime::check_for_mismatch(const Wait& wait) {
  for (Group* group : groups_) {
    if (!group->transport || group->failure) continue;
    const bool certain = !group->error().empty();
    if (certain || group->transport->suspects_mismatch() || control_->was_asked_about(group->id))
      fail_collective(*group, wait, certain);
  }
}

void Runtime::fail_collective(Group& suspect, const Wait& wait, bool certain) {
  const auto differs = [&](const ControlChannel::Reports& reports) {
    std::vector<RankLedger> ledgers = {describe(suspect.id).ledger};
    for (const auto& [rank, report] : reports)
      if (std::ranges::count(suspect.members, rank) > 0) ledgers.push_back(report.ledger);
    return ledgers.size() == suspect.members.size() &&
           first_mismatch(suspect.name, ledgers).has_value();
  };
  const ControlChannel::Reports reports = control_->ask_all(suspect.id, reply_timeout(), differs);
  if (!certain && !differs(reports)) return;
  suspect.failure = diagnose(suspect, wait, reports);
  failed_wait_ = describe(suspect.id).waiting;
  wait.group.failure = suspect.failure;
  // Pending GPU collectives never complete, and freeing GPU memory waits for them.
  for (Group* group : groups_)
    if (group->nccl) group->nccl->abort();
  throw RankError("{}", *suspect.failure);
}

std::string Runtime::diagnose(const Group& suspect,
                              const Wait& wait,
                              const ControlChannel::Reports& reports) const {
  std::vector<RankLedger> ledgers = {describe(suspect.id).ledger};
  std::vector<int> silent;
  std::string elsewhere;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    const auto answer = reports.find(other);
    if (answer == reports.end()) {
      silent.push_back(other);
      continue;
    }
    const RankReport& report = answer->second;
    if (std::ranges::count(suspect.members, other) == 0) continue;
    ledgers.push_back(report.ledger);
    if (&suspect == &wait.group && report.ledger.entered() < wait.operation.sequence)
      elsewhere += fmt::format("; rank {} has not reached it{}",
                               other,
                               report.waiting.empty() ? "" : " and is waiting " + report.waiting);
  }
  if (const auto difference = first_mismatch(suspect.name, ledgers)) return *difference;
  std::string sentence;
  if (const std::string error = suspect.error(); !error.empty()) sentence = error + "; ";
  if (!silent.empty())
    sentence += fmt::format("{} did not respond within {:g} s (killed, stopped or hung); ",
                            name_ranks(silent),
                            reply_timeout());
  return fmt::format("{}this rank waited {:.3g} s in collective {} on \"{}\" ({}){}",
                     sentence,
                     wait.waited.count(),
                     wait.operation.sequence,
                     wait.group.name,
                     to_string(wait.group.record_of(wait.operation)),
                     elsewhere);
}

void Runtime::finish(NcclTransport& transport) {
  const auto began = Clock::now();
  for (std::uint64_t idle = 0; !transport.finish() && Clock::now() - began < limit_; ++idle) {
    progress();
    control_->poll();
    back_off(idle);
  }
}

void Runtime::fail(Group& group, const PendingCollective& operation) {
  fail_collective(group, {group, operation, Seconds(0)}, true);
  throw Failure("internal error: a rank continued after a failed collective");
}

bool Runtime::claim_error_report() {
  if (!claimed_) claimed_ = size_ == 1 || control_->claim(options_.reply_timeout.count());
  return *claimed_;
}

void Runtime::abort(int exit_code) {
  std::fflush(nullptr);
  if (!mpi_ || finished_) {
    report_job_end(exit_code);
    std::_Exit(exit_code);
  }
  // The reporting rank ends the job; this one only if that does not happen in time.
  if (claimed_ && !*claimed_) {
    const auto deadline = Clock::now() + options_.reply_timeout;
    while (Clock::now() < deadline) {
      control_->poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  report_job_end(exit_code);
  quiet_open_mpi();
  // Open MPI waits without limit only for another machine.
  if (local_size_ < size_) daemon_.kill_if_still_running();
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

bool Runtime::is_over() const {
  int over = 0;
  if (mpi_) MPI_Finalized(&over);
  return over != 0;
}

void Runtime::finish(bool in_order) {
  if (ends_mpi_ && in_order) {
    quiet_open_mpi();
    MPI_Finalize();
  }
  finished_ = true;
}

}  // namespace longspan
