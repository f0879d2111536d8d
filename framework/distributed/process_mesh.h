// The processes as a grid with named axes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

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

// A mesh with simulated ranks: counts the bytes one rank would send, without sending.

// One rank's traffic on one axis.
struct AxisTraffic {
  int ranks = 1;
  std::int64_t collectives = 0;
  // Bytes a rank sends in a ring algorithm. With n ranks: 2 (n - 1) / n of an all-reduced tensor; n
  // - 1 parts of a gathered, scattered or exchanged tensor.
  double bytes = 0;
};

// By communicator name: "data", "context", "tensor", "replicas", "time", "world".
using Traffic = std::map<std::string, AxisTraffic>;

// Returns the mesh of one rank. Its collectives complete immediately, leave tensors unchanged, and
// are added to `traffic`. Throws ConfigurationError as ProcessMesh does.
ProcessMesh fake_mesh(const MeshShape& shape, int rank, std::shared_ptr<Traffic> traffic);

}  // namespace longspan
