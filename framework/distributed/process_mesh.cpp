#include "framework/distributed/process_mesh.h"

#include "framework/core/format.h"

namespace longspan {

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

}  // namespace longspan
