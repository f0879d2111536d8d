// The processes as a grid with named axes.
#pragma once

#include <functional>

#include "framework/distributed/communicator.h"

namespace longspan {

// Sizes of the axes. Rank = (data * context_size + context) * tensor_size + tensor, so tensor ranks
// are adjacent.
struct MeshShape {
  int data = 1;
  int context = 1;
  int tensor = 1;
  // Whether tensor ranks also shard the time axis outside of tensor-parallel regions (sequence
  // parallelism, Korthikanti et al. 2022).
  bool sequence = false;

  // Returns the number of ranks that shard the time axis of activations outside of tensor-parallel
  // regions.
  int sequence_ranks() const { return context * (sequence ? tensor : 1); }
  int size() const { return data * context * tensor; }
  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};

// A value type. An axis communicator joins the ranks that differ in that coordinate only; an axis
// of size 1 has a communicator of size 1.
struct ProcessMesh {
  MeshShape shape;
  Communicator world;
  Communicator data;
  Communicator context;
  Communicator tensor;
  // The ranks with identical weights (data x context), over which gradients are summed.
  Communicator replicas;
  // The ranks that shard the time axis of one sequence outside of tensor-parallel regions. These
  // are the context ranks, or with sequence parallelism the context x tensor ranks in world order.
  Communicator time;

  // A mesh of one process.
  ProcessMesh() = default;
  // Throws ConfigurationError when the world's size is not shape.size(), or for sequence
  // parallelism with one tensor rank.
  ProcessMesh(const Communicator& all, const MeshShape& axes);

  // Creates an axis group: this rank has index `place` among the `size` ranks of equal color.
  using Join = std::function<Communicator(const char* name, int size, int color, int place)>;
  // The mesh of rank `rank`, with groups created by `join`.
  ProcessMesh(const Communicator& all, const MeshShape& axes, int rank, const Join& join);

  int data_coordinate() const { return data.rank(); }
  int context_coordinate() const { return context.rank(); }
  int tensor_coordinate() const { return tensor.rank(); }
};

}  // namespace longspan
