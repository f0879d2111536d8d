// Control messages between ranks about their collectives. Private to framework/distributed.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>

#include "framework/distributed/ledger.h"
#include "framework/distributed/mpi_c.h"

namespace longspan {

// A rank's status, sent on request.
struct RankReport {
  RankLedger ledger;    // of the requested group; empty for a rank outside it
  std::string waiting;  // "in collective 7 on "data" (all_reduce of ...)"; empty: not waiting
};

// Ranks answer only while they wait in a collective. A rank that does not answer computes, hangs,
// is stopped or is dead.
class ControlChannel {
 public:
  // Describes this rank to others; `group` may be unknown here.
  using Describe = std::function<RankReport(std::uint64_t group)>;

  ControlChannel(MPI_Comm communicator, Describe describe);

  // Answers pending questions.
  void poll();
  // Returns the reports of other world ranks that answer within `limit` seconds, by rank. Returns
  // early once `enough` holds.
  using Reports = std::map<int, RankReport>;
  Reports ask_all(std::uint64_t group,
                  double limit,
                  const std::function<bool(const Reports&)>& enough);
  // Returns true once after another rank asks about the group: it may have found a mismatch.
  bool was_asked_about(std::uint64_t group) { return asked_about_.erase(group) > 0; }
  // Returns true on at most one rank of the job while ranks answer: the lowest answering rank
  // decides.
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
  std::set<int> silent_;        // ranks that did not answer it in time
  // Reports that others sent about a group with their own questions.
  std::map<std::uint64_t, Reports> asked_reports_;
  std::set<std::uint64_t> asked_about_;
  int granted_ = -1;  // the rank that may report; -1: undecided
  std::map<int, bool> decisions_;
};

}  // namespace longspan
