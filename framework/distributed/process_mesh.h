// The processes as a grid with named axes.
#pragma once

#include <functional>

#include "framework/distributed/communicator.h"

namespace longspan {

// Sizes of the axes. Rank = (data * context_size + context) * tensor_size + tensor: tensor ranks
// are neighbours.
struct MeshShape {
  int data = 1;
  int context = 1;
  int tensor = 1;
  // Tensor ranks also share the time of what is outside of split regions (sequence parallelism,
  // Korthikanti et al. 2022).
  bool sequence = false;

  // Ranks that share the time of activations outside of split regions.
  int sequence_ranks() const { return context * (sequence ? tensor : 1); }
  int size() const { return data * context * tensor; }
  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};

// A value. Axis communicators join the ranks that differ in that coordinate only; an axis of size 1
// has a communicator of size 1.
struct ProcessMesh {
  MeshShape shape;
  Communicator world;
  Communicator data;
  Communicator context;
  Communicator tensor;
  // The ranks that hold the same weights (data x context): gradients are summed over it.
  Communicator replicas;
  // The ranks that share the time of one sequence outside of split regions: the context ranks, with
  // sequence parallelism the context x tensor ranks, in the order of the world.
  Communicator time;

  // A mesh of one process.
  ProcessMesh() = default;
  // Throws ConfigurationError when the world's size is not shape.size(), or for sequence
  // parallelism with one tensor rank.
  ProcessMesh(const Communicator& all, const MeshShape& axes);

  // The group of an axis: this rank is number `place` of the `size` ranks that give the same
  // colour.
  using Join = std::function<Communicator(const char* name, int size, int colour, int place)>;
  // The mesh of rank `rank`, whose groups `join` makes.
  ProcessMesh(const Communicator& all, const MeshShape& axes, int rank, const Join& join);

  int data_coordinate() const { return data.rank(); }
  int context_coordinate() const { return context.rank(); }
  int tensor_coordinate() const { return tensor.rank(); }
};

}  // namespace longspan
