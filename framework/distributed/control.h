// Messages between ranks about the collectives themselves. Private to framework/distributed.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>

#include "framework/distributed/ledger.h"
#include "framework/distributed/mpi_c.h"

namespace longspan {

// What a rank tells about itself when it is asked.
struct RankReport {
  RankLedger ledger;    // of the group that was asked about; empty for a rank outside of it
  std::string waiting;  // "in collective 7 on "data" (all_reduce of ...)"; empty when it does not
};

// Ranks answer questions whenever they wait in a collective, and only then: one that does not
// answer computes, hangs, is stopped or is dead.
class ControlChannel {
 public:
  // Describes this rank to others; `group` may be unknown here.
  using Describe = std::function<RankReport(std::uint64_t group)>;

  ControlChannel(MPI_Comm communicator, Describe describe);

  // Answers what others have asked.
  void poll();
  // The reports of the world's other ranks about a group, by rank: of those that answer within
  // `limit` seconds. Returns early once `enough` is satisfied.
  using Reports = std::map<int, RankReport>;
  Reports ask_all(std::uint64_t group,
                  double limit,
                  const std::function<bool(const Reports&)>& enough);
  // True once after another rank has asked about the group: it may know of a difference.
  bool was_asked_about(std::uint64_t group) { return asked_about_.erase(group) > 0; }
  // True on one rank of the job at most, as long as the ranks answer: the lowest one that still
  // does decides.
  bool claim(double limit);

 private:
  struct Outgoing {
    MPI_Request request;
    std::string bytes;
  };
  void post(int rank, int tag, std::string bytes);
  void handle(int rank, int tag, const std::string& bytes);

  MPI_Comm communicator_;
  Describe describe_;
  int rank_ = 0;
  int size_ = 1;
  std::list<Outgoing> outgoing_;
  std::uint64_t question_ = 0;  // numbers this rank's questions
  Reports answers_;             // to the last question
  std::set<int> silent_;        // that did not answer it in time
  // What others said about a group when they asked about it themselves.
  std::map<std::uint64_t, Reports> told_;
  std::set<std::uint64_t> asked_about_;
  int granted_ = -1;  // the rank that may report; -1 while it is open
  std::map<int, bool> decisions_;
};

}  // namespace longspan
