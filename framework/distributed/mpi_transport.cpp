#include "framework/distributed/mpi_transport.h"

#include <algorithm>
#include <cstring>

namespace longspan {
namespace {

// Bytes of a piece: bounds the scratch memory, and stays well below the MPI count limit.
constexpr std::size_t piece_bytes = std::size_t{64} << 20;
// Up to this size every rank receives and reduces the full tensor, which saves one round.
constexpr std::size_t small_tensor_bytes = 8192;
constexpr std::uint64_t sequence_tags = 256;

std::int64_t edge(std::int64_t count, int index, int parts) { return count * index / parts; }

}  // namespace

MpiTransport::MpiTransport(MPI_Comm communicator, int rank, int size)
    : communicator_(communicator), rank_(rank), size_(size) {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found);
  const int bound = found ? *static_cast<int*>(value) : 32767;
  tag_mask_ = 32767;  // the minimum that MPI guarantees
  while (tag_mask_ <= (bound >> 1) && tag_mask_ < (1 << 30) - 1) tag_mask_ = tag_mask_ * 2 + 1;
}

int MpiTransport::tag_of(const PendingCollective& operation) const {
  const std::uint64_t tag = operation.hash * sequence_tags + operation.sequence % sequence_tags;
  return static_cast<int>(tag & static_cast<std::uint64_t>(tag_mask_));
}

void MpiTransport::check(int code) {
  if (code == MPI_SUCCESS || !error_.empty()) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  error_.assign(text, static_cast<std::size_t>(length));
}

void MpiTransport::send(Flow& flow, int rank, const std::byte* bytes, std::int64_t elements) {
  const auto length = elements * static_cast<std::int64_t>(flow.operation->element_size());
  flow.requests.emplace_back(MPI_REQUEST_NULL);
  check(MPI_Isend(bytes,
                  static_cast<int>(length),
                  MPI_BYTE,
                  rank,
                  flow.tag,
                  communicator_,
                  &flow.requests.back()));
}

void MpiTransport::receive(Flow& flow, int rank, std::byte* bytes, std::int64_t elements) {
  const auto length = elements * static_cast<std::int64_t>(flow.operation->element_size());
  flow.requests.emplace_back(MPI_REQUEST_NULL);
  check(MPI_Irecv(bytes,
                  static_cast<int>(length),
                  MPI_BYTE,
                  rank,
                  flow.tag,
                  communicator_,
                  &flow.requests.back()));
}

void MpiTransport::start(std::shared_ptr<PendingCollective> operation) {
  Flow& flow = flows_.emplace_back();
  flow.tag = tag_of(*operation);
  flow.operation = std::move(operation);
  begin_piece(flow);
  if (!next_round(flow)) flow.operation->done = true;
}

void MpiTransport::begin_piece(Flow& flow) {
  const PendingCollective& operation = *flow.operation;
  auto most = static_cast<std::int64_t>(piece_bytes / operation.element_size());
  if (operation.signature.kind == CollectiveKind::reduce_scatter)  // scratch for all other ranks
    most = std::max<std::int64_t>(most / size_, 1);
  flow.count = std::min(most, operation.part - flow.begin);
  flow.round = 0;
}

bool MpiTransport::progress() {
  bool moved = false;
  for (Flow& flow : flows_) {
    while (!flow.operation->done && error_.empty()) {
      int complete = 0;
      check(MPI_Testall(static_cast<int>(flow.requests.size()),
                        flow.requests.data(),
                        &complete,
                        MPI_STATUSES_IGNORE));
      if (!complete) break;
      moved = true;
      flow.requests.clear();
      flow.operation->done = !next_round(flow);
    }
  }
  std::erase_if(flows_, [](const Flow& flow) { return flow.operation->done; });
  return moved;
}

bool MpiTransport::suspects_mismatch() {
  if (flows_.empty()) return false;
  const Flow& flow = flows_.front();
  const auto number = [](int tag) { return static_cast<std::uint64_t>(tag) % sequence_tags; };
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    int waiting = 0;
    MPI_Status status;
    check(MPI_Iprobe(rank, MPI_ANY_TAG, communicator_, &waiting, &status));
    if (waiting && number(status.MPI_TAG) == number(flow.tag) && status.MPI_TAG != flow.tag)
      return true;
  }
  return false;
}

bool MpiTransport::next_round(Flow& flow) {
  for (;;) {
    bool more = false;
    switch (flow.operation->signature.kind) {
      case CollectiveKind::all_reduce:
        more = next_all_reduce(flow);
        break;
      case CollectiveKind::reduce_scatter:
        more = next_reduce_scatter(flow);
        break;
      case CollectiveKind::broadcast:
        more = next_broadcast(flow);
        break;
      default:
        more = flow.round == 0;
        if (more) swap_parts(flow);
    }
    ++flow.round;
    if (more) return true;
    flow.begin += flow.count;
    if (flow.begin >= flow.operation->part) return false;
    begin_piece(flow);
  }
}

// All kinds that only move bytes, in one round. A barrier is an empty exchange with all ranks.
void MpiTransport::swap_parts(Flow& flow) {
  const PendingCollective& operation = *flow.operation;
  const std::size_t element = operation.element_size();
  const auto at = [&](std::int64_t index) { return static_cast<std::size_t>(index) * element; };
  const CollectiveKind kind = operation.signature.kind;
  if (kind == CollectiveKind::exchange) {
    receive(flow, operation.from, operation.receive + at(flow.begin), flow.count);
    return send(flow, operation.to, operation.send + at(flow.begin), flow.count);
  }
  const auto source = [&](int rank) {
    const bool parted = kind == CollectiveKind::all_to_all;
    return operation.send + at((parted ? rank * operation.part : 0) + flow.begin);
  };
  const auto target = [&](int rank) {
    return operation.receive + at(rank * operation.part + flow.begin);
  };
  for (int step = 1; step < size_; ++step) {  // each rank starts with a different peer
    const int from = (rank_ + size_ - step) % size_;
    receive(flow, from, target(from), flow.count);
  }
  for (int step = 1; step < size_; ++step) {
    const int to = (rank_ + step) % size_;
    send(flow, to, source(to), flow.count);
  }
  if (flow.count > 0 && target(rank_) != source(rank_))
    std::memcpy(target(rank_), source(rank_), at(flow.count));
}

bool MpiTransport::next_all_reduce(Flow& flow) {
  const PendingCollective& operation = *flow.operation;
  const std::size_t element = operation.element_size();
  std::byte* const tensor = operation.receive + static_cast<std::size_t>(flow.begin) * element;
  const bool small = static_cast<std::size_t>(operation.part) * element <= small_tensor_bytes;
  // Rank `rank` reduces elements [begin, end) of the piece; all of them if the tensor is small.
  const auto begin = [&](int rank) { return small ? 0 : edge(flow.count, rank, size_); };
  const auto end = [&](int rank) { return small ? flow.count : edge(flow.count, rank + 1, size_); };
  const auto at = [&](int rank) {
    return tensor + static_cast<std::size_t>(begin(rank)) * element;
  };
  const std::int64_t own = end(rank_) - begin(rank_);
  const auto scratch = [&](int rank) {
    return flow.scratch.data() + static_cast<std::size_t>(rank * own) * element;
  };
  if (flow.round == 0) {
    flow.scratch.resize(static_cast<std::size_t>(size_ * own) * element);
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) receive(flow, rank, scratch(rank), own);
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) send(flow, rank, at(rank), end(rank) - begin(rank));
    return true;
  }
  if (flow.round == 1) {
    std::vector<const std::byte*> sources;
    for (int rank = 0; rank < size_; ++rank)
      sources.push_back(rank == rank_ ? at(rank_) : scratch(rank));
    std::byte* const result = at(rank_);
    const CollectiveSignature& signature = operation.signature;
    reduce_in_order(signature.dtype, signature.reduction, sources, std::span(&result, 1), own);
    if (small) return false;
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) receive(flow, rank, at(rank), end(rank) - begin(rank));
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) send(flow, rank, at(rank_), own);
    return true;
  }
  return false;
}

bool MpiTransport::next_reduce_scatter(Flow& flow) {
  const PendingCollective& operation = *flow.operation;
  const std::size_t element = operation.element_size();
  const auto at = [&](int rank) {
    return operation.send + static_cast<std::size_t>(rank * operation.part + flow.begin) * element;
  };
  const auto scratch = [&](int rank) {
    return flow.scratch.data() + static_cast<std::size_t>(rank * flow.count) * element;
  };
  if (flow.round == 0) {
    flow.scratch.resize(static_cast<std::size_t>(size_ * flow.count) * element);
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) receive(flow, rank, scratch(rank), flow.count);
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) send(flow, rank, at(rank), flow.count);
    return true;
  }
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < size_; ++rank)
    sources.push_back(rank == rank_ ? at(rank_) : scratch(rank));
  std::byte* const result = operation.receive + static_cast<std::size_t>(flow.begin) * element;
  const CollectiveSignature& signature = operation.signature;
  reduce_in_order(signature.dtype, signature.reduction, sources, std::span(&result, 1), flow.count);
  return false;
}

// A binomial tree: in ranks relative to the root, a parent has the lowest bit cleared.
bool MpiTransport::next_broadcast(Flow& flow) {
  const PendingCollective& operation = *flow.operation;
  std::byte* const bytes =
      operation.receive + static_cast<std::size_t>(flow.begin) * operation.element_size();
  const int place = (rank_ + size_ - operation.root) % size_;
  const int lowest = place == 0 ? size_ : place & -place;
  const auto rank_at = [&](int other) { return (other + operation.root) % size_; };
  if (flow.round == 0 && place != 0) {
    receive(flow, rank_at(place - lowest), bytes, flow.count);
    return true;
  }
  if (flow.round > (place == 0 ? 0 : 1)) return false;
  int highest = 1;
  while (highest * 2 < std::min(lowest, size_)) highest *= 2;
  for (int bit = highest; bit > 0; bit /= 2)
    if (bit < lowest && place + bit < size_) send(flow, rank_at(place + bit), bytes, flow.count);
  return true;
}

}  // namespace longspan
