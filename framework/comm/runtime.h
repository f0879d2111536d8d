// MPI's life, the groups, and what a rank does while it waits. Private to framework/comm.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "framework/comm/control.h"
#include "framework/comm/ledger.h"
#include "framework/comm/mpi_c.h"
#include "framework/comm/session.h"
#include "framework/comm/transport.h"

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
  std::unique_ptr<Transport> transport;
  std::optional<std::string> failure;  // every later collective throws it again

  Group(std::shared_ptr<Runtime> owner,
        std::uint64_t identity,
        std::string title,
        std::vector<int> ranks,
        int own_rank);
  ~Group();

  int size() const { return static_cast<int>(members.size()); }
  // Enters the ledger and starts.
  void start(const std::shared_ptr<Operation>& operation);
  void run(const std::shared_ptr<Operation>& operation);
  LedgerRecord record_of(const Operation& operation) const;
};

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
  // Returns when the operation is complete; throws RankError.
  void wait(Group& group, const Operation& operation);

  // Throws RankError with what the ranks' ledgers say about the operation.
  [[noreturn]] void fail(Group& group, const Operation& operation);

  bool claim_report();
  [[noreturn]] void abort(int exit_code);
  void finish(bool in_order);

 private:
  struct Waiting;

  void unlink_mpi_segments() const;
  RankReport describe(std::uint64_t group) const;
  // What this rank waits for, and since when.
  struct Wait {
    Group& group;
    const Operation& operation;
    Seconds waited;
  };
  // Asks the other ranks where a transport or another rank hints at a difference.
  void look_at_suspicions(const Wait& wait);
  // Exchanges the ledgers of `suspect` and throws RankError. Returns only when `certain` is false
  // and no difference was found.
  void give_up(Group& suspect, const Wait& wait, bool certain);
  std::string diagnose(const Group& suspect,
                       const Wait& wait,
                       const ControlChannel::Reports& reports) const;
  double grace() const { return std::min(options_.grace.count(), limit_.count()); }
  void relax(std::uint64_t idle) const;

  SessionOptions options_;
  Seconds limit_{0};
  bool mpi_ = false;  // MPI is running, and this object will end it
  bool finished_ = false;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  bool crowded_ = false;  // more ranks than cores
  std::unique_ptr<ControlChannel> control_;
  std::vector<Group*> groups_;
  const Waiting* waiting_ = nullptr;  // the innermost wait
  std::optional<bool> claimed_;
};

}  // namespace longspan
