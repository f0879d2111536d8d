// A mesh whose other ranks do not exist: what one rank would send is counted, nothing is sent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "framework/distributed/process_mesh.h"

namespace longspan {

// What one rank gives to others over one axis.
struct AxisTraffic {
  int ranks = 1;
  std::int64_t collectives = 0;
  // Bytes that a ring algorithm sends from a rank: of n ranks 2 (n - 1) / n of an all-reduced
  // tensor, n - 1 parts of what is gathered, scattered or swapped.
  double bytes = 0;
};

// By the name of the communicator: "data", "context", "tensor", "replicas", "time", "world".
using Traffic = std::map<std::string, AxisTraffic>;

// The mesh of one rank. Its collectives are complete at once, leave tensors as they are, and are
// added to `traffic`. Throws ConfigurationError as ProcessMesh does.
ProcessMesh fake_mesh(const MeshShape& shape, int rank, std::shared_ptr<Traffic> traffic);

}  // namespace longspan
