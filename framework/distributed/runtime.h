// MPI's lifetime, the groups, and progress while a rank waits. Private to framework/distributed.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "framework/core/span.h"
#include "framework/distributed/control.h"
#include "framework/distributed/ledger.h"
#include "framework/distributed/mpi_c.h"
#include "framework/distributed/nccl_transport.h"
#include "framework/distributed/processes.h"
#include "framework/distributed/session.h"
#include "framework/distributed/transport.h"

namespace longspan {

class Runtime;

// The ranks of one communicator, its ledger and its transports.
struct Communicator::Group {
  std::shared_ptr<Runtime> runtime;
  std::uint64_t id = 0;  // equal on all its ranks, unique among groups
  std::string name;
  std::vector<int> members;  // ranks in the world
  int rank = 0;
  Ledger ledger;
  std::unique_ptr<Transport> transport;  // for host memory
  std::unique_ptr<NcclTransport> nccl;   // for GPU memory, if used
  std::optional<std::string> failure;    // rethrown by every later collective

  Group(std::shared_ptr<Runtime> owner,
        std::uint64_t identity,
        std::string title,
        std::vector<int> ranks,
        int this_rank);
  ~Group();

  int size() const { return static_cast<int>(members.size()); }
  // Advances its collectives; returns whether anything advanced.
  bool progress();
  // Returns a transport's error as a clause, or "".
  std::string error() const;
  // Records the operation in the ledger and starts it.
  void start(const std::shared_ptr<PendingCollective>& operation);
  void run(const std::shared_ptr<PendingCollective>& operation);
  // Delivers the received data of a completed operation.
  void finish(PendingCollective& operation) const;
  LedgerRecord record_of(const PendingCollective& operation) const;

 private:
  // Returns the empty message that accompanies an NCCL operation.
  std::shared_ptr<PendingCollective> shadow_of(const PendingCollective& operation) const;
};

// Describes the pending operation, or the wait for it, as a span.
SpanInfo words_of(const Communicator::Group& group,
                  const PendingCollective& operation,
                  ActivityKind kind);

class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  using Group = Communicator::Group;
  using Seconds = std::chrono::duration<double>;

  explicit Runtime(const SessionOptions& options);
  // Without MPI: for groups whose transports need no other process.
  Runtime() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  void set_time_limit(Seconds limit) { limit_ = limit; }
  // Returns the time after which a waiting host would have given up.
  Seconds patience() const { return limit_ + options_.reply_timeout; }
  // Returns the total time spent in `wait` for operations.
  Seconds waited() const { return waited_; }

  // Creates the group of all ranks; called once.
  std::shared_ptr<Group> make_world();
  // Collective over `parent`. Creates a group of some of its ranks; `members` are ranks in the
  // world, including this one.
  std::shared_ptr<Group> make_group(const std::shared_ptr<Group>& parent,
                                    std::uint64_t id,
                                    const std::string& name,
                                    const std::vector<int>& members);

  void enrol(Group* group) { groups_.push_back(group); }
  void remove(Group* group) { std::erase(groups_, group); }

  // Advances every collective of every group; returns whether anything advanced.
  bool progress();
  // Blocks until no work of the operation is left for the host. Throws RankError.
  void wait(Group& group, const PendingCollective& operation);
  // Blocks until the GPU has completed the work queued on the stream, including collectives. Throws
  // RankError when a collective fails.
  void wait(CUstream_st* stream);

  // Shuts a transport down in order, if the other ranks do so within the time limit.
  void finish(NcclTransport& transport);

  // Throws RankError with the diagnosis of the operation from the ranks' ledgers.
  [[noreturn]] void fail(Group& group, const PendingCollective& operation);

  bool claim_error_report();
  [[noreturn]] void abort(int exit_code);
  // Returns whether its owner has finalized the MPI that this one joined.
  bool is_over() const;
  void finish(bool in_order);

 private:
  struct Waiting;

  // Starts MPI, or joins the running one.
  void init_mpi();

  // The collective that this rank waits for.
  struct Awaited {
    Group* group = nullptr;
    const PendingCollective* operation = nullptr;
    std::uint64_t sequence = 0;  // distinguishes operations whose address is reused
    friend bool operator==(const Awaited&, const Awaited&) = default;
  };
  // Returns the first operation that the GPU has started but not completed.
  Awaited under_way_on_gpu() const;
  // Waits for `finished`, which depends on the collective that `awaited` returns. Where it returns
  // none, the wait cannot fail.
  template <typename Finished, typename Find>
  void wait_until(const Finished& finished, const Find& awaited);
  void unlink_mpi_segments() const;
  RankReport describe(std::uint64_t group) const;
  // The operation that this rank waits for, and the elapsed wait.
  struct Wait {
    Group& group;
    const PendingCollective& operation;
    Seconds waited;
  };
  // Queries the other ranks where a transport or another rank suspects a mismatch.
  void check_for_mismatch(const Wait& wait);
  // Exchanges the ledgers of `suspect` and throws RankError. Returns only when `certain` is false
  // and no mismatch was found.
  void fail_collective(Group& suspect, const Wait& wait, bool certain);
  std::string diagnose(const Group& suspect,
                       const Wait& wait,
                       const ControlChannel::Reports& reports) const;
  double reply_timeout() const { return std::min(options_.reply_timeout.count(), limit_.count()); }
  void back_off(std::uint64_t idle) const;

  SessionOptions options_;
  Seconds limit_{0};
  Seconds waited_{0};
  LauncherProcess daemon_;
  bool mpi_ = false;       // MPI is running
  bool ends_mpi_ = false;  // this object will finalize MPI
  bool finished_ = false;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  bool oversubscribed_ = false;  // more ranks than cores
  std::unique_ptr<ControlChannel> control_;
  std::vector<Group*> groups_;
  const Waiting* waiting_ = nullptr;  // the innermost wait
  std::string failed_wait_;  // the wait that ended in a failure, for later questions of other ranks
  std::optional<bool> claimed_;
};

}  // namespace longspan
