// NCCL on the emulated device, over MPI messages between the ranks of a test. As in NCCL, calls
// return before their work is queued and the work is asynchronous. Sums are not in rank order and
// are rounded at each addition. Ranks with different calls hang.
// Unlike NCCL, it rejects a call before the previous one is complete.
#include "tests/support/emulated_cuda/emulated_nccl.h"

#include <cuda_runtime.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "framework/distributed/mpi_c.h"
#include "framework/distributed/nccl_library.h"

namespace longspan::nccl {
namespace {

constexpr int first_tag = 1 << 20;
constexpr int polls_a_call = 2;      // of `state`, until a call is queued
constexpr int polls_a_transfer = 5;  // of its stream, until it starts

// Settings of emulated_nccl.h.
bool broken = false;
bool stops = false;
bool blocks = false;
int delay = 0;
std::vector<std::size_t> called;

using Bytes = std::vector<std::byte>;

struct Name {
  int maker = 0;  // rank in MPI_COMM_WORLD
  int number = 0;
};

struct Place {
  int rank;  // in the communicator
  int in_world;
};

// Parts of a call that must be equal on two ranks.
struct Header {
  std::uint64_t number;  // index of the call on the communicator
  char kind;
  DType dtype;
  std::size_t count;
  friend bool operator==(const Header&, const Header&) = default;
};

// Messages of one communicator, in order between any two of its ranks.
class Mail {
 public:
  explicit Mail(int tag) : tag_(tag) {}

  void send(int to, Bytes bytes) {
    auto& letter = letters_.emplace_back(std::make_unique<Letter>());
    letter->bytes = std::move(bytes);
    MPI_Isend(letter->bytes.data(),
              static_cast<int>(letter->bytes.size()),
              MPI_BYTE,
              to,
              tag_,
              MPI_COMM_WORLD,
              &letter->request);
  }

  std::optional<Bytes> receive(int from) {
    int waiting = 0;
    MPI_Message message;
    MPI_Status status;
    MPI_Improbe(from, tag_, MPI_COMM_WORLD, &waiting, &message, &status);
    if (!waiting) return std::nullopt;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    Bytes bytes(static_cast<std::size_t>(count));
    MPI_Mrecv(bytes.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    return bytes;
  }

  bool all_sent() {
    std::erase_if(letters_, [](const auto& letter) {
      int complete = 0;
      MPI_Test(&letter->request, &complete, MPI_STATUS_IGNORE);
      return complete != 0;
    });
    return letters_.empty();
  }

 private:
  struct Letter {
    Bytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  int tag_;
  std::vector<std::unique_ptr<Letter>> letters_;
};

// One call: messages to send, ranks to receive from, and a consumer. Ranks are those of the
// communicator.
struct Transfer {
  char kind = 0;
  DType dtype = DType::u8;
  std::size_t count = 0;
  std::vector<std::pair<int, std::function<Bytes()>>> sends;
  std::vector<int> sources;
  std::function<void(const std::vector<Bytes>&)> use;  // in order of `sources`
};

}  // namespace

struct NcclComm {
  Name name;
  int rank = 0;
  int ranks = 1;
  std::vector<int> places;  // ranks in MPI_COMM_WORLD; -1: not known yet
  int polls = 0;            // until the last call can complete
  std::function<bool()> call;
  // Calls since the start of a group.
  Transfer group;
  std::vector<void*> group_targets;
  CUstream_st* group_stream = nullptr;
  std::uint64_t calls = 0;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Mail> mail;
};

namespace {

template <typename T>
void append(Bytes& bytes, const T& value) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

Bytes read(const void* from, std::size_t bytes) {
  const emulated_cuda::Access access;
  const auto* const begin = static_cast<const std::byte*>(from);
  return {begin, begin + bytes};
}

void write(void* to, const Bytes& bytes) {
  const emulated_cuda::Access access;
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}

// A transfer in progress, called until it is complete.
class ActiveTransfer {
 public:
  ActiveTransfer(const NcclComm& link, Transfer transfer)
      : aborted_(link.aborted),
        mail_(link.mail),
        places_(link.places),
        header_{link.calls, transfer.kind, transfer.dtype, transfer.count},
        transfer_(std::move(transfer)),
        received_(transfer_.sources.size()) {}

  bool advance() {
    if (*aborted_) return true;
    if (polls_ < polls_a_transfer) {
      if (++polls_ == polls_a_transfer) begin();
      return false;
    }
    for (std::size_t i = 0; i < received_.size(); ++i)
      if (!received_[i])
        received_[i] = mail_->receive(places_[static_cast<std::size_t>(transfer_.sources[i])]);
    if (!mail_->all_sent() || !std::ranges::all_of(received_, [this](const auto& bytes) {
          return bytes && fits(*bytes);
        }))
      return false;
    std::vector<Bytes> bodies;
    for (const auto& bytes : received_)
      bodies.emplace_back(bytes->begin() + sizeof(Header), bytes->end());
    transfer_.use(bodies);
    return true;
  }

 private:
  void begin() {
    for (const auto& [to, body] : transfer_.sends) {
      Bytes bytes;
      append(bytes, header_);
      const Bytes content = body();
      bytes.insert(bytes.end(), content.begin(), content.end());
      mail_->send(places_[static_cast<std::size_t>(to)], std::move(bytes));
    }
  }

  bool fits(const Bytes& bytes) const {
    Header theirs = header_;
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    return theirs == header_;
  }

  std::shared_ptr<std::atomic<bool>> aborted_;
  std::shared_ptr<Mail> mail_;
  std::vector<int> places_;
  Header header_;
  Transfer transfer_;
  std::vector<std::optional<Bytes>> received_;
  int polls_ = 0;
};

// The communicator of this rank with an incomplete call. One for all threads, as in NCCL.
NcclComm* calling = nullptr;

// Starts a call, which is complete when `call` returns true. `state` polls it.
NcclStatus begin_call(NcclComm& link, std::function<bool()> call) {
  if (calling != nullptr && !*calling->aborted)
    return {.under_way = false, .error = "a call before the last one was done"};
  calling = &link;
  link.polls = polls_a_call + std::exchange(delay, 0);
  link.call = std::move(call);
  return {.under_way = true, .error = ""};
}

NcclStatus queue(NcclComm& link, Transfer transfer, CUstream_st* stream) {
  if (std::exchange(blocks, false)) {
    while (!*link.aborted) std::this_thread::yield();
    return {.under_way = false, .error = "the communicator was aborted"};
  }
  called.push_back(transfer.count);
  return begin_call(link, [&link, transfer = std::move(transfer), stream] {
    ++link.calls;
    const auto active = std::make_shared<ActiveTransfer>(link, transfer);
    emulated_cuda::queue_lasting(stream, [active] { return active->advance(); });
    return true;
  });
}

// Sends the bytes of each rank to all ranks.
Transfer to_all(const NcclComm& link, char kind, const void* from, std::size_t count, DType dtype) {
  Transfer transfer;
  transfer.kind = kind;
  transfer.dtype = dtype;
  transfer.count = count;
  const std::size_t bytes = count * size_of(dtype);
  for (int rank = 0; rank < link.ranks; ++rank) {
    transfer.sends.emplace_back(rank, [=] { return read(from, bytes); });
    transfer.sources.push_back(rank);
  }
  return transfer;
}

template <typename T>
T combine(T a, T b, Reduction reduction) {
  using Number = std::conditional_t<std::is_class_v<T>, float, T>;
  const auto x = static_cast<Number>(a), y = static_cast<Number>(b);
  switch (reduction) {
    case Reduction::sum:
      return static_cast<T>(static_cast<Number>(x + y));
    case Reduction::maximum:
      return static_cast<T>(std::max(x, y));
    default:
      return static_cast<T>(std::min(x, y));
  }
}

template <typename T>
Bytes reduce_as(const std::vector<Bytes>& all, Reduction reduction) {
  std::vector<T> result(all[0].size() / sizeof(T)), next(result.size());
  const auto take = [](const Bytes& bytes, std::vector<T>& elements) {
    std::memcpy(elements.data(), bytes.data(), bytes.size());
  };
  take(all.back(), result);
  for (std::size_t rank = all.size() - 1; rank-- > 0;) {
    take(all[rank], next);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = combine(result[i], next[i], reduction);
  }
  Bytes bytes(all[0].size());
  std::memcpy(bytes.data(), result.data(), bytes.size());
  return bytes;
}

Bytes reduce(const std::vector<Bytes>& all, DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::f64:
      return reduce_as<double>(all, reduction);
    case DType::f32:
      return reduce_as<float>(all, reduction);
    case DType::bf16:
      return reduce_as<BFloat16>(all, reduction);
    case DType::f16:
      return reduce_as<Float16>(all, reduction);
    case DType::i64:
      return reduce_as<std::int64_t>(all, reduction);
    case DType::i32:
      return reduce_as<std::int32_t>(all, reduction);
    case DType::u8:
      return reduce_as<std::uint8_t>(all, reduction);
  }
  return {};
}

// Rank 0 gathers the MPI ranks of all and sends them to all.
bool meet(NcclComm& link) {
  if (link.rank > 0) {
    const auto table = link.mail->receive(link.name.maker);
    if (!table) return false;
    std::memcpy(link.places.data(), table->data(), table->size());
    return true;
  }
  while (std::ranges::count(link.places, -1) > 0) {
    const auto letter = link.mail->receive(MPI_ANY_SOURCE);
    if (!letter) return false;
    Place sent;
    std::memcpy(&sent, letter->data(), sizeof sent);
    link.places[static_cast<std::size_t>(sent.rank)] = sent.in_world;
  }
  Bytes table;
  for (const int place : link.places) append(table, place);
  for (std::size_t rank = 1; rank < link.places.size(); ++rank)
    link.mail->send(link.places[rank], table);
  return true;
}

}  // namespace

std::string unavailable_reason() {
  return std::getenv("LONGSPAN_NO_NCCL") ? "there is no NCCL" : "";
}

NcclStatus make_id(Id& id) {
  static int made = 0;
  Name name{.maker = 0, .number = made++};
  MPI_Comm_rank(MPI_COMM_WORLD, &name.maker);
  std::memcpy(id.data(), &name, sizeof name);
  return {};
}

NcclStatus make(NcclComm*& link, const Id& id, int rank, int ranks) {
  if (stops) raise(SIGSTOP);
  link = new NcclComm;
  std::memcpy(&link->name, id.data(), sizeof link->name);
  link->rank = rank;
  link->ranks = ranks;
  link->mail = std::make_shared<Mail>(first_tag + link->name.number * 64 + link->name.maker);
  link->places.assign(static_cast<std::size_t>(ranks), -1);
  link->places[0] = link->name.maker;
  if (rank > 0) {
    Place own{.rank = rank, .in_world = 0};
    MPI_Comm_rank(MPI_COMM_WORLD, &own.in_world);
    Bytes bytes;
    append(bytes, own);
    link->mail->send(link->name.maker, std::move(bytes));
  }
  return begin_call(*link, [link] { return meet(*link); });
}

NcclStatus state(NcclComm& link) {
  if (broken) return {.under_way = false, .error = "unhandled system error (made for a test)"};
  if (!link.call) return {};
  if (link.polls > 0) --link.polls;
  if (link.polls > 0 || !link.call()) return {.under_way = true, .error = ""};
  link.call = {};
  calling = nullptr;
  return {};
}

NcclStatus finalize(NcclComm& link) {
  for (int rank = 0; rank < link.ranks; ++rank)
    link.mail->send(link.places[static_cast<std::size_t>(rank)], Bytes(1));
  auto missing = std::make_shared<std::vector<int>>(link.places);
  return begin_call(link, [&link, missing] {
    std::erase_if(*missing, [&](int place) { return link.mail->receive(place).has_value(); });
    return missing->empty() && link.mail->all_sent();
  });
}

void destroy(NcclComm* link) noexcept { delete link; }
void abort(NcclComm* link, int) noexcept { *link->aborted = true; }
bool preserves_order(const NcclComm&) {
  return std::getenv("LONGSPAN_EMULATED_NCCL_IN_ORDER") != nullptr;
}

NcclStatus start_group(NcclComm& link) {
  link.group = {};
  link.group.kind = 'p';
  link.group_targets.clear();
  return {};
}

NcclStatus end_group(NcclComm& link) {
  link.group.use = [targets = link.group_targets](const std::vector<Bytes>& received) {
    for (std::size_t i = 0; i < targets.size(); ++i) write(targets[i], received[i]);
  };
  return queue(link, link.group, link.group_stream);
}

NcclStatus send(
    NcclComm& link, const void* from, std::size_t count, DType dtype, int to, CUstream_st* stream) {
  link.group.dtype = dtype;
  link.group.count = count;
  link.group_stream = stream;
  link.group.sends.emplace_back(to, [=] { return read(from, count * size_of(dtype)); });
  return {};
}

NcclStatus receive(NcclComm& link, void* to, std::size_t, DType, int from, CUstream_st*) {
  link.group.sources.push_back(from);
  link.group_targets.push_back(to);
  return {};
}

NcclStatus all_reduce(NcclComm& link,
                      const void* from,
                      void* to,
                      std::size_t count,
                      DType dtype,
                      Reduction reduction,
                      CUstream_st* stream) {
  Transfer transfer = to_all(link, 'r', from, count, dtype);
  transfer.use = [=](const std::vector<Bytes>& all) { write(to, reduce(all, dtype, reduction)); };
  return queue(link, std::move(transfer), stream);
}

NcclStatus all_gather(NcclComm& link,
                      const void* from,
                      void* to,
                      std::size_t count,
                      DType dtype,
                      CUstream_st* stream) {
  Transfer transfer = to_all(link, 'g', from, count, dtype);
  transfer.use = [=](const std::vector<Bytes>& all) {
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      write(static_cast<std::byte*>(to) + rank * all[rank].size(), all[rank]);
  };
  return queue(link, std::move(transfer), stream);
}

NcclStatus reduce_scatter(NcclComm& link,
                          const void* from,
                          void* to,
                          std::size_t count,
                          DType dtype,
                          CUstream_st* stream) {
  const auto ranks = static_cast<std::size_t>(link.ranks);
  Transfer transfer = to_all(link, 's', from, count * ranks, dtype);
  transfer.use = [=, rank = static_cast<std::size_t>(link.rank)](const std::vector<Bytes>& all) {
    const Bytes sum = reduce(all, dtype, Reduction::sum);
    const std::size_t part = sum.size() / ranks;
    const std::byte* const own = sum.data() + rank * part;
    write(to, {own, own + part});
  };
  return queue(link, std::move(transfer), stream);
}

NcclStatus broadcast(
    NcclComm& link, void* in_place, std::size_t count, DType dtype, int root, CUstream_st* stream) {
  Transfer transfer = to_all(link, 'b', in_place, count, dtype);
  transfer.use = [=](const std::vector<Bytes>& all) {
    write(in_place, all[static_cast<std::size_t>(root)]);
  };
  return queue(link, std::move(transfer), stream);
}

}  // namespace longspan::nccl

void emulated_nccl::break_links() { longspan::nccl::broken = true; }
void emulated_nccl::stop_when_made() { longspan::nccl::stops = true; }
void emulated_nccl::block_next_call() { longspan::nccl::blocks = true; }
void emulated_nccl::delay_next_call(int polls) { longspan::nccl::delay = polls; }
const std::vector<std::size_t>& emulated_nccl::called() { return longspan::nccl::called; }
