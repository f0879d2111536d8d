// Losses by position in a segment: what more context gives.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/range.h"
#include "framework/core/tensor.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// The mean loss of the positions [begin, end) of a segment, in nats.
struct PositionLoss {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  double loss = 0;
};

// Sums over all passes of an evaluation, for parts of a segment that are as even as they go.
class PositionLosses {
 public:
  // parts: 0 for none; at most as many as positions are made.
  PositionLosses(std::int64_t parts, std::int64_t segment);

  bool wanted() const { return parts_ > 0; }
  // Of each row this rank's losses, those of `positions`. targets: [rows, time] i64 on the host;
  // ignored ones do not count.
  void add(const std::vector<double>& losses, const Tensor& targets, const Ranges& positions);

  // Parts that nothing reached are left out. Collective over mesh.replicas.
  std::vector<PositionLoss> means(const ProcessMesh& mesh) const;

 private:
  std::int64_t segment_;
  std::int64_t parts_;
  std::vector<double> sums_;
  std::vector<double> counts_;
};

}  // namespace longspan
