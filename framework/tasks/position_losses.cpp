#include "framework/tasks/position_losses.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/shape.h"
#include "framework/tasks/auxiliary_metrics.h"

namespace longspan {

PositionLosses::PositionLosses(std::int64_t parts, std::int64_t segment)
    : segment_(segment),
      parts_(std::min(parts, segment)),
      sums_(static_cast<std::size_t>(parts_)),
      counts_(static_cast<std::size_t>(parts_)) {}

void PositionLosses::add(const std::vector<double>& losses,
                         const Tensor& targets,
                         const Ranges& positions) {
  const auto wanted = targets.span<std::int64_t>();
  const std::int64_t time = targets.shape()[1];
  auto loss = losses.begin();
  for (std::int64_t row = 0; row < targets.shape()[0]; ++row)
    for (const Range& range : positions)
      for (std::int64_t position = range.begin; position < range.end; ++position) {
        require(loss != losses.end() && position < segment_, "a loss has no position");
        const double here = *loss++;
        if (wanted[static_cast<std::size_t>(row * time + position)] == ignored_target) continue;
        const auto part = static_cast<std::size_t>(position * parts_ / segment_);
        sums_[part] += here;
        counts_[part] += 1;
      }
  require(loss == losses.end(),
          "{} losses do not match targets of shape {}",
          losses.size(),
          targets.shape());
}

std::vector<PositionLoss> PositionLosses::means(const ProcessMesh& mesh) const {
  const std::vector<double> sums = sum_over(mesh.replicas, sums_);
  const std::vector<double> counts = sum_over(mesh.replicas, counts_);
  std::vector<PositionLoss> means;
  // Part i has the positions p with i <= p parts / segment < i + 1.
  const auto first = [&](std::int64_t part) { return (part * segment_ + parts_ - 1) / parts_; };
  for (std::int64_t part = 0; part < parts_; ++part) {
    const auto i = static_cast<std::size_t>(part);
    if (counts[i] > 0) means.push_back({first(part), first(part + 1), sums[i] / counts[i]});
  }
  return means;
}

}  // namespace longspan
