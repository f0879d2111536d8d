#include <algorithm>
#include <cstring>

#include "framework/core/timeline.h"
#include "framework/distributed/mpi_transport.h"
#include "framework/distributed/runtime.h"
#include "framework/distributed/shared_memory.h"

namespace longspan {
namespace {

// Returns every member's segment, in rank order; empty unless all ranks can map each other's
// memory. Collective over `parent`; members of several new groups call it at once.
std::vector<std::unique_ptr<SharedSegment>> share_memory(const Communicator& parent,
                                                         const std::vector<int>& members,
                                                         const std::vector<int>& parent_members,
                                                         int this_rank) {
  std::vector<std::unique_ptr<SharedSegment>> segments(members.size());
  const auto own = static_cast<std::size_t>(this_rank);
  segments[own] = SharedSegment::create();
  std::string mine(sizeof(SharedSegment::Address), '\0');
  const SharedSegment::Address none;
  std::memcpy(mine.data(), segments[own] ? &segments[own]->address() : &none, mine.size());
  const std::vector<std::string> all = parent.all_gather(mine);
  bool reached = segments[own] != nullptr;
  for (std::size_t i = 0; i < members.size() && reached; ++i) {
    if (i == own) continue;
    const auto at = std::find(parent_members.begin(), parent_members.end(), members[i]);
    SharedSegment::Address address;
    std::memcpy(&address,
                all[static_cast<std::size_t>(at - parent_members.begin())].data(),
                sizeof address);
    segments[i] = SharedSegment::open(address);
    reached = segments[i] != nullptr;
  }
  // The groups of all colors are created at once; each uses its own members' answers.
  const std::vector<std::string> answers = parent.all_gather(std::string(1, reached ? '1' : '0'));
  for (const int member : members) {
    const auto at = std::find(parent_members.begin(), parent_members.end(), member);
    reached = reached && answers[static_cast<std::size_t>(at - parent_members.begin())] == "1";
  }
  if (!reached) return {};
  segments[own]->close_descriptor();
  return segments;
}

MPI_Comm message_communicator(const std::vector<int>& members, std::uint64_t id) {
  MPI_Group world;
  MPI_Group chosen;
  MPI_Comm result = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &chosen);
  MPI_Comm_create_group(MPI_COMM_WORLD, chosen, static_cast<int>(id % 32768), &result);
  MPI_Group_free(&chosen);
  MPI_Group_free(&world);
  MPI_Comm_set_errhandler(result, MPI_ERRORS_RETURN);
  return result;
}

}  // namespace

Communicator::Group::Group(std::shared_ptr<Runtime> owner,
                           std::uint64_t identity,
                           std::string title,
                           std::vector<int> ranks,
                           int this_rank)
    : runtime(std::move(owner)),
      id(identity),
      name(std::move(title)),
      members(std::move(ranks)),
      rank(this_rank),
      ledger(identity) {
  runtime->enrol(this);
}

Communicator::Group::~Group() {
  runtime->remove(this);
  // A failed collective may still receive data, so its buffers are kept until the process ends.
  if (failure) static_cast<void>(transport.release());
}

void Communicator::Group::start(const std::shared_ptr<PendingCollective>& operation) {
  if (failure) throw RankError("{}", *failure);
  ledger.enter(*operation);
  if (timeline_of_thread != nullptr) operation->begun = timeline_of_thread->begin_async();
  if (operation->on_gpu) {
    nccl->start(operation);
    transport->start(shadow_of(*operation));
  } else {
    transport->start(operation);
  }
  progress();
}

SpanInfo words_of(const Communicator::Group& group,
                  const PendingCollective& operation,
                  ActivityKind kind) {
  return {.kind = kind,
          .name = name_of(operation.signature.kind).data(),
          .place = operation.place,
          .axis = group.name,
          .bytes = operation.input_bytes(),
          .number = operation.sequence};
}

std::shared_ptr<PendingCollective> Communicator::Group::shadow_of(
    const PendingCollective& operation) const {
  auto shadow = std::make_shared<PendingCollective>();
  shadow->signature.kind = CollectiveKind::exchange;
  shadow->to = (rank + 1) % size();
  shadow->from = (rank + size() - 1) % size();
  shadow->sequence = operation.sequence;
  shadow->hash = operation.hash;
  shadow->place = operation.place;
  return shadow;
}

bool Communicator::Group::progress() {
  const bool moved = nccl && nccl->progress();
  return (transport && transport->progress()) || moved;
}

std::string Communicator::Group::error() const {
  if (nccl && !nccl->error().empty())
    return fmt::format("NCCL reports on \"{}\": {}", name, nccl->error());
  if (transport && !transport->error().empty())
    return fmt::format("MPI reports on \"{}\": {}", name, transport->error());
  return {};
}

void Communicator::Group::run(const std::shared_ptr<PendingCollective>& operation) {
  start(operation);
  runtime->wait(*this, *operation);
  finish(*operation);
}

void Communicator::Group::finish(PendingCollective& operation) const {
  operation.deliver();
  if (operation.begun.recording == 0 || timeline_of_thread == nullptr) return;
  timeline_of_thread->end_async(words_of(*this, operation, ActivityKind::collective),
                                std::exchange(operation.begun, {}));
}

LedgerRecord Communicator::Group::record_of(const PendingCollective& operation) const {
  for (const LedgerRecord& record : ledger.records())
    if (record.sequence == operation.sequence) return record;
  LedgerRecord record{operation.sequence, operation.hash, operation.signature, {}};
  to_string(operation.place).copy(record.place.data(), record.place.size() - 1);
  return record;
}

std::shared_ptr<Communicator::Group> Runtime::make_world() {
  std::vector<int> members(static_cast<std::size_t>(size_));
  for (int i = 0; i < size_; ++i) members[static_cast<std::size_t>(i)] = i;
  // MPI messages carry the addresses of the ranks' segments.
  const auto messages = std::make_shared<Group>(shared_from_this(), 1, "world", members, rank_);
  messages->transport =
      std::make_unique<MpiTransport>(message_communicator(members, 1), rank_, size_);
  // After the second barrier every rank has sent to every other.
  for (int i = 0; i < 2; ++i) Communicator(messages).barrier();
  unlink_mpi_segments();
  if (options_.transport == TransportChoice::messages) return messages;
  auto segments = share_memory(Communicator(messages), members, members, rank_);
  if (segments.empty()) return messages;
  auto shared = std::make_shared<Group>(shared_from_this(), 2, "world", members, rank_);
  shared->transport = std::make_unique<SharedMemoryTransport>(rank_, std::move(segments));
  return shared;
}

std::shared_ptr<Communicator::Group> Runtime::make_group(const std::shared_ptr<Group>& parent,
                                                         std::uint64_t id,
                                                         const std::string& name,
                                                         const std::vector<int>& members) {
  const auto at = std::find(members.begin(), members.end(), rank_);
  const int own = static_cast<int>(at - members.begin());
  auto group = std::make_shared<Group>(shared_from_this(), id, name, members, own);
  std::vector<std::unique_ptr<SharedSegment>> segments;
  if (options_.transport != TransportChoice::messages)
    segments = share_memory(Communicator(parent), members, parent->members, own);
  if (!segments.empty())
    group->transport = std::make_unique<SharedMemoryTransport>(own, std::move(segments));
  else if (group->size() > 1)
    group->transport =
        std::make_unique<MpiTransport>(message_communicator(members, id), own, group->size());
  return group;
}

}  // namespace longspan
