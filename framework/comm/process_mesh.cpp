#include "framework/comm/process_mesh.h"

namespace longspan {

ProcessMesh::ProcessMesh(const Communicator& all, const MeshShape& axes) : shape(axes), world(all) {
  if (axes.data < 1 || axes.context < 1 || axes.tensor < 1 || axes.size() != all.size())
    throw ConfigurationError(
        "parallel.data {} x parallel.context {} x parallel.tensor {} is {} processes, but {} run",
        axes.data,
        axes.context,
        axes.tensor,
        axes.size(),
        all.size());
  if (axes.sequence && axes.tensor == 1)
    throw ConfigurationError(
        "parallel.sequence divides activations over the tensor ranks; it needs parallel.tensor of "
        "at least 2");
  const int tensor_at = all.rank() % axes.tensor;
  const int context_at = all.rank() / axes.tensor % axes.context;
  const int data_at = all.rank() / axes.tensor / axes.context;
  const int across_context = axes.tensor;
  const int across_data = axes.tensor * axes.context;
  // Ranks of one axis group have the same number once their own coordinate is taken out.
  const auto axis = [&](const char* name, int extent, int coordinate, int stride) {
    return extent == 1 ? Communicator()
                       : all.split(all.rank() - coordinate * stride, coordinate, name);
  };
  data = axis("data", axes.data, data_at, across_data);
  context = axis("context", axes.context, context_at, across_context);
  tensor = axis("tensor", axes.tensor, tensor_at, 1);
  if (axes.context == 1)
    replicas = data;
  else if (axes.data == 1)
    replicas = context;
  else
    replicas = all.split(tensor_at, all.rank(), "replicas");
  if (!axes.sequence)
    time = context;
  else if (axes.context == 1)
    time = tensor;
  else
    time = all.split(data_at, all.rank(), "time");
}

}  // namespace longspan
