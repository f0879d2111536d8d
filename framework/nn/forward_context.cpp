#include "framework/nn/forward_context.h"

#include <algorithm>
#include <cmath>

#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

Tensor full_tensor(std::int64_t elements, std::int64_t value, const Device& device) {
  Tensor tensor = Tensor::empty({elements}, DType::i64, device.host(), MemoryTag::workspace);
  std::ranges::fill(tensor.span<std::int64_t>(), value);
  return tensor;
}

}  // namespace

std::shared_ptr<const ActiveRows> make_active_rows(const std::vector<bool>& takes,
                                                   std::int64_t time,
                                                   const SequenceShard& division,
                                                   std::int64_t first_stream,
                                                   const Device& device) {
  const std::int64_t whole = std::ssize(takes);
  if (whole == 0) return nullptr;
  const std::int64_t unit = (whole + 63) / 64;
  const std::int64_t count = std::max<std::int64_t>(std::ranges::count(takes, true), 1);
  const std::int64_t rounded = (count + unit - 1) / unit * unit;
  if (rounded > whole - whole / 4 || rounded == whole) return nullptr;

  const Ranges held = division.total > 0 ? division.outside() : Ranges{{0, time}};
  const std::int64_t total = division.total > 0 ? division.total : time;
  const Tensor which = full_tensor(rounded, -1, device);
  const Tensor where = full_tensor(whole, -1, device);
  const Tensor placed = full_tensor(rounded, 0, device);
  std::int64_t row = 0, next = 0;
  for (std::int64_t stream = first_stream; row < whole; ++stream)
    for (const Range& range : held)
      for (std::int64_t position = range.begin; position < range.end; ++position, ++row) {
        if (!takes[static_cast<std::size_t>(row)]) continue;
        which.data<std::int64_t>()[next] = row;
        where.data<std::int64_t>()[row] = next;
        placed.data<std::int64_t>()[next] = stream * total + position;
        ++next;
      }
  return std::make_shared<const ActiveRows>(ActiveRows{
      {copy_async(which, device), copy_async(where, device)}, copy_async(placed, device)});
}

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

void LayerLossCollector::add(const std::string& name, double weight, const Tensor& total) {
  const auto [sum, fresh] = sums_.try_emplace(name, Sum{total, weight});
  if (fresh) return;
  require(sum->second.weight == weight, "intermediate loss \"{}\" has two weights", name);
  on(total.device(), [&](auto backend) { accumulate(backend, 1.0, total, sum->second.total); });
}

Variable collect_layer_loss(const Variable& x,
                            const std::string& name,
                            double weight,
                            double factor,
                            const ForwardContext& pass) {
  if (!pass.layer_losses) return x;
  const Tensor& value = x.value();
  // A recomputation finds the cached decision and adds nothing.
  pass.child(name).decide([&] {
    const Tensor total = Tensor::empty({1}, accumulator_of(value.dtype()), value.device());
    on(value.device(), [&](auto backend) { sum(backend, value, factor, total); });
    pass.layer_losses->add(name, weight, total);
    return total;
  });
  const double by = weight * factor * pass.layer_losses->share();
  return record(
      value,
      {x},
      [by, seed = pass.layer_losses->seed(), dtype = value.dtype()](BackwardContext& gradients) {
        const Tensor& dy = gradients.output();
        const Tensor dx = Tensor::empty(dy.shape(), dtype, dy.device());
        on(dx.device(), [&](auto backend) {
          fill(backend, by, seed, dx);
          accumulate(backend, 1.0, dy, dx);
        });
        gradients.set(0, dx);
      });
}

}  // namespace longspan
