#include "framework/optim/matrix_rounds.h"

#include <algorithm>

#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

bool owns_all(const Parameter& parameter) {
  return parameter.shard_begin == 0 && parameter.shard_end == parameter.shape.elements();
}

// A shard and the unsharded tensor for copy_rows: [outer, extent of the split axis, inner].
struct Cut {
  Shape piece;
  Shape whole;

  explicit Cut(const Parameter& parameter) {
    std::int64_t outer = 1, inner = 1;
    const Shape& shape = parameter.global_shape;
    for (int axis = 0; axis < parameter.split_axis; ++axis) outer *= shape[axis];
    for (int axis = parameter.split_axis + 1; axis < shape.dimensions(); ++axis)
      inner *= shape[axis];
    piece = {outer, parameter.part.count, inner};
    whole = {outer, parameter.part.total, inner};
  }
};

Tensor flat(const Tensor& tensor) { return tensor.reshape({tensor.elements()}); }

// Writes this rank's shard of a gradient into the unsharded tensor, initialized with zeros.
void fill_in(const Parameter& parameter, const Tensor& whole) {
  const Tensor& own = parameter.shard_gradient;
  if (!parameter.split()) {
    whole.slice(parameter.shard_begin, parameter.shard_end).copy_from(own);
    return;
  }
  Tensor piece = own;
  if (!owns_all(parameter)) {
    piece = Tensor::zeros(
        {parameter.shape.elements()}, own.dtype(), own.device(), MemoryTag::workspace);
    piece.slice(parameter.shard_begin, parameter.shard_end).copy_from(own);
  }
  const Cut cut(parameter);
  on(own.device(), [&](auto backend) {
    copy_rows(backend,
              piece.reshape(cut.piece),
              0,
              whole.reshape(cut.whole),
              parameter.part.begin,
              parameter.part.count,
              false);
  });
}

// Reverses fill_in.
void take_out(const Parameter& parameter, const Tensor& whole) {
  const Tensor& own = parameter.shard_gradient;
  if (!parameter.split()) {
    own.copy_from(whole.slice(parameter.shard_begin, parameter.shard_end));
    return;
  }
  const bool all = owns_all(parameter);
  const Tensor piece =
      all ? own
          : Tensor::empty(
                {parameter.shape.elements()}, own.dtype(), own.device(), MemoryTag::workspace);
  const Cut cut(parameter);
  on(own.device(), [&](auto backend) {
    copy_rows(backend,
              whole.reshape(cut.whole),
              parameter.part.begin,
              piece.reshape(cut.piece),
              0,
              parameter.part.count,
              false);
  });
  if (!all) own.copy_from(piece.slice(parameter.shard_begin, parameter.shard_end));
}

}  // namespace

std::pair<std::int64_t, std::int64_t> matrix_of(const Shape& shape) {
  const std::int64_t rows = shape[0];
  return {rows, rows == 0 ? 0 : shape.elements() / rows};
}

DistributedMatrixUpdate::DistributedMatrixUpdate(const Parameters& parameters,
                                                 const StateBuffer::Which& which)
    : parameters_(parameters),
      ranks_(parameters.sharing().zero > 0 ? parameters.mesh().world : parameters.mesh().tensor) {
  Round all;
  for (const auto& parameter : parameters.trained())
    if (which(*parameter)) all.push_back(parameter.get());
  const auto size = [](const Parameter* each) { return each->global_shape.elements(); };
  std::ranges::stable_sort(all, std::greater<>(), size);
  const auto together = static_cast<std::size_t>(ranks_.size());
  for (std::size_t i = 0; i < all.size(); i += together)
    rounds_.emplace_back(
        all.begin() + static_cast<std::ptrdiff_t>(i),
        all.begin() + static_cast<std::ptrdiff_t>(std::min(i + together, all.size())));
}

// Exactly one rank of the group must provide each element.
bool DistributedMatrixUpdate::fills_in(const Parameter& parameter) const {
  if (parameters_.sharing().zero > 0) return parameters_.is_primary_owner(parameter);
  return parameter.split() || parameters_.mesh().tensor.rank() == 0;
}

void DistributedMatrixUpdate::of_gradients(
    const std::function<void(const Tensor& whole)>& change) const {
  for (const Round& round : rounds_) run(round, change);
}

void DistributedMatrixUpdate::run(const Round& round,
                                  const std::function<void(const Tensor& whole)>& change) const {
  const std::int64_t longest = round.front()->global_shape.elements();
  const Tensor all = Tensor::zeros({ranks_.size(), longest},
                                   round.front()->shard_gradient.dtype(),
                                   parameters_.device(),
                                   MemoryTag::workspace);
  const auto full_of = [&](std::size_t home) {
    const auto row = static_cast<std::int64_t>(home);
    return flat(all.slice(row, row + 1)).slice(0, round[home]->global_shape.elements());
  };
  for (std::size_t home = 0; home < round.size(); ++home)
    if (fills_in(*round[home])) fill_in(*round[home], full_of(home));
  const auto rank = static_cast<std::size_t>(ranks_.rank());
  const Tensor mine = all.slice(ranks_.rank(), ranks_.rank() + 1);
  ranks_.reduce_scatter(all, mine);
  if (rank < round.size()) {
    const auto [rows, columns] = matrix_of(round[rank]->global_shape);
    change(full_of(rank).reshape({rows, columns}));
  }
  ranks_.all_gather(mine, all);
  for (std::size_t home = 0; home < round.size(); ++home) take_out(*round[home], full_of(home));
}

}  // namespace longspan
