#include "framework/distributed/process_mesh.h"

#include "framework/core/format.h"
#include "framework/distributed/runtime.h"

namespace longspan {
namespace {

double sent_bytes(const PendingCollective& operation, int ranks) {
  const double part =
      static_cast<double>(operation.part) * static_cast<double>(operation.element_size());
  switch (operation.signature.kind) {
    case CollectiveKind::all_reduce:
      return 2 * part * (ranks - 1) / ranks;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return part * (ranks - 1);
    case CollectiveKind::broadcast:
    case CollectiveKind::exchange:
      return part;
    case CollectiveKind::barrier:
      return 0;
  }
  return 0;
}

class CountingTransport : public Transport {
 public:
  CountingTransport(std::string name, int ranks, std::shared_ptr<Traffic> traffic)
      : name_(std::move(name)), ranks_(ranks), traffic_(std::move(traffic)) {}

  void start(std::shared_ptr<PendingCollective> operation) override {
    AxisTraffic& axis = (*traffic_)[name_];
    axis.ranks = ranks_;
    ++axis.collectives;
    axis.bytes += sent_bytes(*operation, ranks_);
    operation->done = true;
  }
  bool progress() override { return false; }
  bool suspects_mismatch() override { return false; }
  const std::string& error() const override { return no_error_; }

 private:
  std::string name_;
  int ranks_;
  std::shared_ptr<Traffic> traffic_;
  std::string no_error_;
};

}  // namespace

ProcessMesh::ProcessMesh(const Communicator& all, const MeshShape& axes)
    : ProcessMesh(all, axes, all.rank(), [&](const char* name, int, int color, int place) {
        return all.split(color, place, name);
      }) {}

ProcessMesh::ProcessMesh(const Communicator& all, const MeshShape& axes, int rank, const Join& join)
    : shape(axes), world(all) {
  if (axes.data < 1 || axes.context < 1 || axes.tensor < 1 || axes.size() != all.size())
    throw ConfigurationError(
        "parallel.data_parallel_size {} x parallel.context_parallel_size {} x "
        "parallel.tensor_parallel_size {}: expected {}, found {}",
        axes.data,
        axes.context,
        axes.tensor,
        pluralize(axes.size(), "rank"),
        all.size());
  if (axes.sequence && axes.tensor == 1)
    throw ConfigurationError(
        "parallel.sequence_parallel requires parallel.tensor_parallel_size of at least 2");
  const int tensor_at = rank % axes.tensor;
  const int context_at = rank / axes.tensor % axes.context;
  const int data_at = rank / axes.tensor / axes.context;
  const int across_context = axes.tensor;
  const int across_data = axes.tensor * axes.context;
  // Ranks of one axis group have equal numbers without their own coordinate.
  const auto axis = [&](const char* name, int extent, int coordinate, int stride) {
    return extent == 1 ? Communicator()
                       : join(name, extent, rank - coordinate * stride, coordinate);
  };
  data = axis("data", axes.data, data_at, across_data);
  context = axis("context", axes.context, context_at, across_context);
  tensor = axis("tensor", axes.tensor, tensor_at, 1);
  if (axes.context == 1)
    replicas = data;
  else if (axes.data == 1)
    replicas = context;
  else
    replicas =
        join("replicas", axes.data * axes.context, tensor_at, data_at * axes.context + context_at);
  if (!axes.sequence)
    time = context;
  else if (axes.context == 1)
    time = tensor;
  else
    time = join("time", axes.context * axes.tensor, data_at, context_at * axes.tensor + tensor_at);
}

ProcessMesh fake_mesh(const MeshShape& shape, int rank, std::shared_ptr<Traffic> traffic) {
  const auto runtime = std::make_shared<Runtime>();
  std::uint64_t groups = 0;
  const auto join = [&](const char* name, int size, int, int place) {
    if (size == 1) return Communicator();
    // The members' ranks matter only in messages and other ranks' ledgers.
    std::vector<int> members(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) members[static_cast<std::size_t>(i)] = i;
    auto group =
        std::make_shared<Communicator::Group>(runtime, ++groups, name, std::move(members), place);
    group->transport = std::make_unique<CountingTransport>(name, size, traffic);
    return Communicator(std::move(group));
  };
  return ProcessMesh(join("world", shape.size(), 0, rank), shape, rank, join);
}

}  // namespace longspan
