#include "framework/distributed/communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "framework/distributed/nccl_transport.h"
#include "framework/distributed/runtime.h"

namespace longspan {
namespace {

using Place = Communicator::Place;

void require_same_side(const char* what, const Tensor& a, const Tensor& b, const Place& place) {
  if (a.device().on_gpu() == b.device().on_gpu()) return;
  throw Failure("{} at {}: expected both tensors on the same device, found one on a GPU",
                what,
                to_string(place));
}

void require_same_type(const char* what, const Tensor& a, const Tensor& b, const Place& place) {
  if (a.defined() && b.defined() && a.dtype() == b.dtype())
    return require_same_side(what, a, b, place);
  throw Failure("{} at {}: expected tensors of one dtype, found {} and {}",
                what,
                to_string(place),
                a.defined() ? name_of(a.dtype()) : "undefined",
                b.defined() ? name_of(b.dtype()) : "undefined");
}

void require_elements(const char* what,
                      std::int64_t found,
                      std::int64_t wanted,
                      const Place& place) {
  if (found == wanted) return;
  throw Failure("{} at {}: expected {} elements, found {}", what, to_string(place), wanted, found);
}

void require_rank(const char* what, int rank, int size, const Place& place) {
  if (rank >= 0 && rank < size) return;
  throw Failure("{} at {}: rank {} is out of range ({} ranks)", what, to_string(place), rank, size);
}

std::shared_ptr<PendingCollective> operation_of(CollectiveKind kind,
                                                DType dtype,
                                                std::int64_t elements,
                                                const Place& place) {
  auto operation = std::make_shared<PendingCollective>();
  operation->signature = {kind, dtype, Reduction::sum, -1, elements};
  operation->part = elements;
  operation->place = place;
  return operation;
}

// GPU tensors use the group's NCCL transport, else host memory.
std::shared_ptr<PendingCollective> operation_on(const Communicator::Group& group,
                                                CollectiveKind kind,
                                                const Tensor& send,
                                                const Tensor& receive,
                                                std::int64_t part,
                                                const Place& place) {
  auto operation = operation_of(kind, send.dtype(), part, place);
  operation->tensors = {send, receive};
  if (group.nccl && group.nccl->device() == receive.device() && send.device() == receive.device()) {
    operation->on_gpu = true;
  } else if (receive.device().on_gpu()) {
    auto& [from, to] = operation->tensors;
    from = send.to_host();
    to = send.bytes() == receive.bytes() && send.elements() == receive.elements()
             ? from
             : Tensor::empty(
                   receive.shape(), receive.dtype(), receive.device().host(), MemoryTag::workspace);
    operation->delivered = receive;
  }
  operation->send = operation->tensors[0].bytes();
  operation->receive = operation->tensors[1].bytes();
  return operation;
}

}  // namespace

struct Request::State {
  std::shared_ptr<Communicator::Group> group;
  std::shared_ptr<PendingCollective> operation;

  ~State() {
    // A failed group's buffers stay with its transport; a destructor cannot report the error.
    if (std::uncaught_exceptions() > 0) return;
    try {
      group->runtime->wait(*group, *operation);
      group->finish(*operation);
    } catch (const std::exception&) {
    }
  }
};

Request::Request(std::shared_ptr<State> state) : state_(std::move(state)) {}

void Request::wait() {
  if (!state_) return;
  state_->group->runtime->wait(*state_->group, *state_->operation);
  state_->group->finish(*state_->operation);
  state_.reset();
}

bool Request::test() {
  if (!state_) return true;
  if (state_->group->failure) throw RankError("{}", *state_->group->failure);
  state_->group->runtime->progress();
  if (!state_->operation->complete()) return false;
  state_->group->finish(*state_->operation);
  state_.reset();
  return true;
}

Communicator::Communicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}

int Communicator::rank() const { return group_ ? group_->rank : 0; }

int Communicator::size() const { return group_ ? group_->size() : 1; }

const std::string& Communicator::name() const {
  static const std::string alone = "one";
  return group_ ? group_->name : alone;
}

namespace {

Request begin(const std::shared_ptr<Communicator::Group>& group,
              std::shared_ptr<PendingCollective> operation) {
  group->start(operation);
  return Request(std::shared_ptr<Request::State>(new Request::State{group, std::move(operation)}));
}

}  // namespace

Request Communicator::start_all_reduce(const Tensor& tensor,
                                       Reduction reduction,
                                       Place place) const {
  require_same_type("all_reduce", tensor, tensor, place);
  if (size() == 1) return {};
  auto operation =
      operation_on(*group_, CollectiveKind::all_reduce, tensor, tensor, tensor.elements(), place);
  operation->signature.reduction = reduction;
  return begin(group_, std::move(operation));
}

Request Communicator::start_all_gather(const Tensor& mine, const Tensor& all, Place place) const {
  require_same_type("all_gather", mine, all, place);
  require_elements("all_gather", all.elements(), mine.elements() * size(), place);
  if (size() == 1) {
    if (mine.bytes() != all.bytes()) all.copy_from(mine);
    return {};
  }
  return begin(
      group_, operation_on(*group_, CollectiveKind::all_gather, mine, all, mine.elements(), place));
}

Request Communicator::start_reduce_scatter(const Tensor& all,
                                           const Tensor& mine,
                                           Place place) const {
  require_same_type("reduce_scatter", all, mine, place);
  require_elements("reduce_scatter", all.elements(), mine.elements() * size(), place);
  if (size() == 1) {
    if (mine.bytes() != all.bytes()) mine.copy_from(all);
    return {};
  }
  return begin(
      group_,
      operation_on(*group_, CollectiveKind::reduce_scatter, all, mine, mine.elements(), place));
}

Request Communicator::start_exchange(
    const Tensor& send, int to, const Tensor& receive, int from, Place place) const {
  require_same_type("exchange", send, receive, place);
  require_elements("exchange", receive.elements(), send.elements(), place);
  require_rank("exchange", to, size(), place);
  require_rank("exchange", from, size(), place);
  if (size() == 1) {
    receive.copy_from(send);
    return {};
  }
  auto operation =
      operation_on(*group_, CollectiveKind::exchange, send, receive, send.elements(), place);
  operation->to = to;
  operation->from = from;
  return begin(group_, std::move(operation));
}

void Communicator::all_reduce(const Tensor& tensor, Reduction reduction, Place place) const {
  start_all_reduce(tensor, reduction, place).wait();
}

void Communicator::all_gather(const Tensor& mine, const Tensor& all, Place place) const {
  start_all_gather(mine, all, place).wait();
}

void Communicator::reduce_scatter(const Tensor& all, const Tensor& mine, Place place) const {
  start_reduce_scatter(all, mine, place).wait();
}

void Communicator::exchange(
    const Tensor& send, int to, const Tensor& receive, int from, Place place) const {
  start_exchange(send, to, receive, from, place).wait();
}

void Communicator::all_to_all(const Tensor& send, const Tensor& receive, Place place) const {
  require_same_type("all_to_all", send, receive, place);
  require_elements("all_to_all", receive.elements(), send.elements(), place);
  require(send.elements() % size() == 0,
          "all_to_all at {}: expected a multiple of {} elements, found {}",
          to_string(place),
          size(),
          send.elements());
  if (size() == 1) return receive.copy_from(send);
  group_->run(operation_on(
      *group_, CollectiveKind::all_to_all, send, receive, send.elements() / size(), place));
}

void Communicator::broadcast(const Tensor& tensor, int root, Place place) const {
  require_same_type("broadcast", tensor, tensor, place);
  require_rank("broadcast", root, size(), place);
  if (size() == 1) return;
  auto operation =
      operation_on(*group_, CollectiveKind::broadcast, tensor, tensor, tensor.elements(), place);
  operation->root = root;
  operation->signature.root = group_->members[static_cast<std::size_t>(root)];
  group_->run(operation);
}

void Communicator::barrier(Place place) const {
  if (size() > 1) group_->run(operation_of(CollectiveKind::barrier, DType::u8, 0, place));
}

namespace {

// Host values are owned by the operation, so that they outlive an exception.
template <typename T>
std::shared_ptr<PendingCollective> operation_on_value(T value,
                                                      Reduction reduction,
                                                      const Place& place) {
  auto operation = operation_of(CollectiveKind::all_reduce, DTypeOf<T>::value, 1, place);
  operation->signature.reduction = reduction;
  operation->bytes.resize(sizeof(T));
  std::memcpy(operation->bytes.data(), &value, sizeof(T));
  operation->send = operation->receive = operation->bytes.data();
  return operation;
}

template <typename T>
T value_of(const PendingCollective& operation) {
  T value;
  std::memcpy(&value, operation.bytes.data(), sizeof(T));
  return value;
}

}  // namespace

double Communicator::all_reduce(double value, Reduction reduction, Place place) const {
  if (size() == 1) return value;
  const auto operation = operation_on_value(value, reduction, place);
  group_->run(operation);
  return value_of<double>(*operation);
}

std::int64_t Communicator::all_reduce(std::int64_t value, Reduction reduction, Place place) const {
  if (size() == 1) return value;
  const auto operation = operation_on_value(value, reduction, place);
  group_->run(operation);
  return value_of<std::int64_t>(*operation);
}

std::string Communicator::broadcast(std::string bytes, int root, Place place) const {
  require_rank("broadcast", root, size(), place);
  if (size() == 1) return bytes;
  // The length is sent first: only the root has it.
  const auto length = static_cast<std::size_t>(all_reduce(
      static_cast<std::int64_t>(rank() == root ? bytes.size() : 0), Reduction::maximum, place));
  auto operation =
      operation_of(CollectiveKind::broadcast, DType::u8, static_cast<std::int64_t>(length), place);
  operation->root = root;
  operation->signature.root = group_->members[static_cast<std::size_t>(root)];
  operation->bytes.resize(length);
  if (rank() == root) std::ranges::copy(std::as_bytes(std::span(bytes)), operation->bytes.begin());
  operation->send = operation->receive = operation->bytes.data();
  group_->run(operation);
  return {reinterpret_cast<const char*>(operation->bytes.data()), length};
}

std::vector<std::string> Communicator::all_gather(const std::string& bytes, Place place) const {
  if (size() == 1) return {bytes};
  // Every part is padded to the longest, preceded by its length.
  const auto longest = static_cast<std::size_t>(
      all_reduce(static_cast<std::int64_t>(bytes.size()), Reduction::maximum, place));
  const std::size_t part = longest + sizeof(std::uint64_t);
  auto operation =
      operation_of(CollectiveKind::all_gather, DType::u8, static_cast<std::int64_t>(part), place);
  operation->bytes.resize(part * static_cast<std::size_t>(size()));
  std::byte* const all = operation->bytes.data();
  std::byte* const own = all + part * static_cast<std::size_t>(rank());
  const std::uint64_t length = bytes.size();
  std::memcpy(own, &length, sizeof length);
  std::memcpy(own + sizeof length, bytes.data(), bytes.size());
  operation->send = own;
  operation->receive = all;
  group_->run(operation);
  std::vector<std::string> result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size()); ++i) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, all + i * part, sizeof theirs);
    result.emplace_back(reinterpret_cast<const char*>(all + i * part + sizeof theirs), theirs);
  }
  return result;
}

Communicator Communicator::split(int color, int key, const std::string& name, Place place) const {
  if (size() == 1) return {};
  struct Choice {
    std::int32_t color, key, rank;
  };
  const Choice mine = {color, key, rank()};
  const std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  std::vector<Choice> same;
  for (const std::string& answer : all_gather(bytes, place)) {
    Choice choice;
    std::memcpy(&choice, answer.data(), sizeof choice);
    if (choice.color == color) same.push_back(choice);
  }
  std::stable_sort(
      same.begin(), same.end(), [](const Choice& a, const Choice& b) { return a.key < b.key; });
  std::vector<int> members;
  for (const Choice& choice : same)
    members.push_back(group_->members[static_cast<std::size_t>(choice.rank)]);
  // The parent's ledger hash is equal on all its ranks and differs from other groups'.
  const std::uint64_t salt = (static_cast<std::uint64_t>(color) + 1) * 0x9e3779b97f4a7c15u;
  const std::uint64_t id = group_->ledger.hash() ^ salt;
  auto group = group_->runtime->make_group(group_, id, name, members);
  return members.size() == 1 ? Communicator() : Communicator(std::move(group));
}

void Communicator::check_ledger(Place place) const {
  if (size() == 1) return;
  const std::uint64_t hash = group_->ledger.hash();
  const auto ranks = static_cast<std::size_t>(size());
  auto operation = operation_of(CollectiveKind::all_gather, DType::i64, 1, place);
  operation->bytes.resize((ranks + 1) * sizeof hash);
  std::memcpy(operation->bytes.data(), &hash, sizeof hash);
  operation->send = operation->bytes.data();
  operation->receive = operation->bytes.data() + sizeof hash;
  // Differing ranks seldom get this far: the check is itself a collective.
  group_->run(operation);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (std::memcmp(operation->receive + rank * sizeof hash, &hash, sizeof hash) != 0)
      group_->runtime->fail(*group_, *operation);
}

}  // namespace longspan
