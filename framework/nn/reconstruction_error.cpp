#include "framework/nn/reconstruction_error.h"

#include <cmath>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

void ReconstructionError::add(std::uint64_t stack,
                              std::int64_t sublayer,
                              double squared_error,
                              double squared_norm) {
  auto& [error, norm] = sums_[{stack, sublayer}];
  error += squared_error;
  norm += squared_norm;
}

// Ranks with copies of the same part of a stream contribute equally to both sums.
double ReconstructionError::largest(const Communicator& ranks, const Device& device) const {
  if (sums_.empty()) return 0;
  std::vector<double> mine;
  for (const auto& [place, sums] : sums_) {
    mine.push_back(sums.first);
    mine.push_back(sums.second);
  }
  const Tensor all =
      Tensor::from<double>(mine, {std::ssize(mine)}, device.host(), MemoryTag::workspace);
  ranks.all_reduce(all, Reduction::sum);
  const auto sums = all.span<double>();
  double largest = 0;
  for (std::size_t i = 0; i < sums.size(); i += 2) {
    const double found = std::sqrt(sums[i] / (sums[i + 1] > 0 ? sums[i + 1] : 1));
    if (std::isnan(found) || found > largest) largest = found;
  }
  return largest;
}

}  // namespace longspan
