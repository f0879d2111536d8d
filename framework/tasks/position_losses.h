// Losses by position in a segment, which show the benefit of context.
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

// Loss sums over all passes of an evaluation, for parts of a segment of nearly equal size.
class PositionLosses {
 public:
  // parts: 0 for none; at most the number of predicted positions.
  PositionLosses(std::int64_t parts, std::int64_t segment);

  bool wanted() const { return parts_ > 0; }
  // Adds this rank's losses of each row at `positions`. targets: [rows, time] i64 on the host;
  // ignored ones do not count.
  void add(const std::vector<double>& losses, const Tensor& targets, const Ranges& positions);

  // Collective over mesh.replicas. Returns the means, without parts that no position reached.
  std::vector<PositionLoss> means(const ProcessMesh& mesh) const;

 private:
  std::int64_t segment_;
  std::int64_t parts_;
  std::vector<double> sums_;
  std::vector<double> counts_;
};

}  // namespace longspan
