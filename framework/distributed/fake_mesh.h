// A mesh with simulated ranks: counts the bytes one rank would send, without sending.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "framework/distributed/process_mesh.h"

namespace longspan {

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
