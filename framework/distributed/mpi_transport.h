// Transport between ranks of several machines: point-to-point MPI messages. Private to
// framework/distributed.
#pragma once

#include <deque>

#include "framework/distributed/mpi_c.h"
#include "framework/distributed/transport.h"

namespace longspan {

// Each collective is a few rounds of non-blocking sends and receives. The message tag derives from
// the ledger's rolling hash, so messages of different collectives never match. No rank computes
// with another collective's bytes.
class MpiTransport : public Transport {
 public:
  // `communicator` is exclusive to this group, returns errors, and outlives the transport.
  MpiTransport(MPI_Comm communicator, int rank, int size);

  void start(std::shared_ptr<PendingCollective> operation) override;
  bool progress() override;
  bool suspects_mismatch() override;
  const std::string& error() const override { return error_; }

 private:
  // A pending operation, split into pieces; each piece takes several rounds.
  struct Flow {
    std::shared_ptr<PendingCollective> operation;
    int tag = 0;
    std::int64_t begin = 0;  // of the piece, within each part
    std::int64_t count = 0;
    int round = 0;
    std::vector<MPI_Request> requests;
    std::vector<std::byte> scratch;
  };

  int tag_of(const PendingCollective& operation) const;
  void begin_piece(Flow& flow);
  // Starts the next round; returns false when the operation is complete.
  bool next_round(Flow& flow);
  // The rounds of each kind; they return false when the piece is complete.
  bool next_all_reduce(Flow& flow);
  bool next_reduce_scatter(Flow& flow);
  bool next_broadcast(Flow& flow);
  void swap_parts(Flow& flow);
  void send(Flow& flow, int rank, const std::byte* bytes, std::int64_t elements);
  void receive(Flow& flow, int rank, std::byte* bytes, std::int64_t elements);
  void check(int code);

  MPI_Comm communicator_;
  int rank_;
  int size_;
  int tag_mask_;
  std::deque<Flow> flows_;
  std::string error_;
};

}  // namespace longspan
