// MPI's life, the groups, and what a rank does while it waits. Private to framework/distributed.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "framework/core/span.h"
#include "framework/distributed/control.h"
#include "framework/distributed/daemon.h"
#include "framework/distributed/ledger.h"
#include "framework/distributed/mpi_c.h"
#include "framework/distributed/nccl_transport.h"
#include "framework/distributed/session.h"
#include "framework/distributed/transport.h"

namespace longspan {

class Runtime;

// The ranks of one communicator, its ledger and what carries its collectives.
struct Communicator::Group {
  std::shared_ptr<Runtime> runtime;
  std::uint64_t id = 0;  // the same on all its ranks, and no other group's
  std::string name;
  std::vector<int> members;  // ranks in the world
  int rank = 0;
  Ledger ledger;
  std::unique_ptr<Transport> transport;  // of memory of the host
  std::unique_ptr<NcclTransport> nccl;   // of a GPU's, where there is one
  std::optional<std::string> failure;    // every later collective throws it again

  Group(std::shared_ptr<Runtime> owner,
        std::uint64_t identity,
        std::string title,
        std::vector<int> ranks,
        int own_rank);
  ~Group();

  int size() const { return static_cast<int>(members.size()); }
  // Moves its collectives on; true when anything moved.
  bool progress();
  // What a transport reports as wrong, as a clause; empty when nothing is.
  std::string error() const;
  // Enters the ledger and starts.
  void start(const std::shared_ptr<PendingCollective>& operation);
  void run(const std::shared_ptr<PendingCollective>& operation);
  // Brings what was received to where it is wanted, of an operation that is done.
  void finish(PendingCollective& operation) const;
  LedgerRecord record_of(const PendingCollective& operation) const;

 private:
  // The empty message beside an operation that NCCL carries.
  std::shared_ptr<PendingCollective> shadow_of(const PendingCollective& operation) const;
};

// Of the operation under way, or of the wait for it.
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
  // After which a host that waits would have given up.
  Seconds patience() const { return limit_ + options_.reply_timeout; }
  // What `wait` for an operation has taken in all.
  Seconds waited() const { return waited_; }

  // The group of all ranks; called once.
  std::shared_ptr<Group> make_world();
  // A group of some ranks of `parent`, called by all of the parent's ranks at once; `members` are
  // ranks in the world, this one among them.
  std::shared_ptr<Group> make_group(const std::shared_ptr<Group>& parent,
                                    std::uint64_t id,
                                    const std::string& name,
                                    const std::vector<int>& members);

  void enrol(Group* group) { groups_.push_back(group); }
  void remove(Group* group) { std::erase(groups_, group); }

  // Moves every collective of every group on; true when anything moved.
  bool progress();
  // Returns when nothing of the operation is left to the host; throws RankError.
  void wait(Group& group, const PendingCollective& operation);
  // Returns when a GPU has done what is queued on the stream, collectives among it; throws
  // RankError when one of those fails.
  void wait(CUstream_st* stream);

  // Ends a transport in good order, if the other ranks come to it within the time limit.
  void finish(NcclTransport& transport);

  // Throws RankError with what the ranks' ledgers say about the operation.
  [[noreturn]] void fail(Group& group, const PendingCollective& operation);

  bool claim_error_report();
  [[noreturn]] void abort(int exit_code);
  // Whether someone else has ended the MPI that this one joined.
  bool is_over() const;
  void finish(bool in_order);

 private:
  struct Waiting;

  // Starts MPI, or joins the one that runs.
  void begin_mpi();

  // The collective that this rank waits for.
  struct Awaited {
    Group* group = nullptr;
    const PendingCollective* operation = nullptr;
    std::uint64_t sequence = 0;  // a freed operation's address may be another's
    friend bool operator==(const Awaited&, const Awaited&) = default;
  };
  // The first that a GPU has come to and not done.
  Awaited under_way_on_gpu() const;
  // Waits for `finished`, which is up to the collective that `awaited` names, and to nothing that
  // can fail where it names none.
  template <typename Finished, typename Find>
  void wait_until(const Finished& finished, const Find& awaited);
  void unlink_mpi_segments() const;
  RankReport describe(std::uint64_t group) const;
  // What this rank waits for, and since when.
  struct Wait {
    Group& group;
    const PendingCollective& operation;
    Seconds waited;
  };
  // Asks the other ranks where a transport or another rank hints at a difference.
  void check_for_mismatch(const Wait& wait);
  // Exchanges the ledgers of `suspect` and throws RankError. Returns only when `certain` is false
  // and no difference was found.
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
  bool ends_mpi_ = false;  // and this object will end it
  bool finished_ = false;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  bool oversubscribed_ = false;  // more ranks than cores
  std::unique_ptr<ControlChannel> control_;
  std::vector<Group*> groups_;
  const Waiting* waiting_ = nullptr;  // the innermost wait
  std::string gave_up_;  // the wait that ended in a failure, for ranks that ask afterwards
  std::optional<bool> claimed_;
};

}  // namespace longspan
