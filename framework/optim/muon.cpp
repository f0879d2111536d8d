// Muon (Jordan et al. 2024): hidden matrices follow their orthogonalized momentum; other parameters
// use AdamW.
#include "framework/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"
#include "framework/kernels/precondition.h"
#include "framework/kernels/transpose.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {

namespace {

bool is_hidden(const Parameter& parameter) { return parameter.hidden; }
bool is_other(const Parameter& parameter) { return !parameter.hidden; }

class Muon : public OptimizerRule {
 public:
  Muon(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        rounds_(parameters, is_hidden),
        momentum_("momentum_buffer", parameters, is_hidden),
        first_("exp_avg", parameters, is_other),
        second_("exp_avg_sq", parameters, is_other) {}

  void update(const UpdateStep& step) override {
    for (const auto& parameter : parameters_.trained())
      if (parameter->hidden)
        write_direction(*parameter, step);
      else if (parameters_.reads(*parameter))
        update_by_adam(*parameter, step);
    rounds_.of_gradients(
        [this](const Tensor& whole) { orthogonalize(whole, options_.muon.iterations); });
    for (const auto& parameter : parameters_.trained())
      if (parameter->hidden) follow(*parameter, step);
  }

  std::string state_signature() const override {
    return "the momentum of muon and the moments of adamw";
  }
  void add_to(TrainingState& state) const override {
    momentum_.add_to(state);
    first_.add_to(state);
    second_.add_to(state);
  }

 private:
  void write_direction(const Parameter& parameter, const UpdateStep& step) const {
    on(parameters_.device(), [&](auto backend) {
      momentum_step(backend,
                    {.gradient = parameter.shard_gradient,
                     .buffer = momentum_.of(parameter),
                     .gradient_factor = step.gradient_factor,
                     .momentum = options_.momentum.value_or(0.95),
                     .nesterov = options_.nesterov.value_or(true)});
    });
  }

  // With the scale `adam` the update of an element has the size of Adam's (Liu et al. 2025), so
  // that both can share one learning rate. `spectral` scales by the spectral norm of the layer.
  double scale_of(const Parameter& parameter) const {
    const auto [rows, columns] = matrix_of(parameter.global_shape);
    const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
    return options_.muon.scale == MuonScale::adam ? 0.2 * std::sqrt(std::max(height, width))
                                                  : std::sqrt(std::max(1.0, height / width));
  }

  void follow(const Parameter& parameter, const UpdateStep& step) const {
    const double decay = parameter.decays ? options_.weight_decay : 0;
    on(parameters_.device(), [&](auto backend) {
      apply_update(backend,
                   {.weight = parameter.shard_master,
                    .direction = parameter.shard_gradient,
                    .compute = parameter.shard_compute,
                    .decay_factor = 1 - step.learning_rate * decay,
                    .rate = step.learning_rate * scale_of(parameter)});
    });
  }

  void update_by_adam(const Parameter& parameter, const UpdateStep& step) const {
    on(parameters_.device(), [&](auto backend) {
      adam_update(backend,
                  {.range = range_of(parameter, step, options_.weight_decay),
                   .first = first_.of(parameter),
                   .second = second_.of(parameter),
                   .beta1 = options_.beta1.value_or(0.9),
                   .beta2 = options_.beta2.value_or(0.95),
                   .epsilon = options_.epsilon.value_or(1e-8),
                   .step = step.number,
                   .decoupled = true});
    });
  }

  OptimizerOptions options_;
  const Parameters& parameters_;
  DistributedMatrixUpdate rounds_;
  StateBuffer momentum_;  // of hidden matrices
  StateBuffer first_;     // of other parameters
  StateBuffer second_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_muon(const OptimizerOptions& options,
                                         const Parameters& parameters) {
  return std::make_unique<Muon>(options, parameters);
}

namespace {

// Requires at most as many rows as columns, which makes the products of rows the smaller ones.
void orthogonalize_wide(const Tensor& x, std::int64_t iterations) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const Device& device = x.device();
  const std::int64_t rows = x.shape()[0];
  const auto square = [&] {
    return Tensor::empty({rows, rows}, x.dtype(), device, MemoryTag::workspace);
  };
  const Tensor products = square(), fourth = square(), next = x.empty_like(MemoryTag::workspace);
  const Tensor squares = Tensor::zeros({1}, DType::f64, device, MemoryTag::workspace);
  on(device, [&](auto backend) { sum_of_squares(backend, {x}, squares); });
  const double norm = std::sqrt(squares.item());
  on(device, [&](auto backend) { scale(backend, 1 / (norm + 1e-7), x, x); });
  for (std::int64_t i = 0; i < iterations; ++i) {
    dispatch_or_meta(device, [&](auto backend) {
      matmul(backend, {.a = x, .b = x, .c = products, .transpose_b = true});
      matmul(backend, {.a = products, .b = products, .c = fourth});
    });
    on(device, [&](auto backend) {
      scale(backend, c, fourth, fourth);
      accumulate(backend, b, products, fourth);
      scale(backend, a, x, next);
    });
    dispatch_or_meta(device, [&](auto backend) {
      matmul(backend, {.a = fourth, .b = x, .c = next, .accumulate = true});
    });
    x.copy_from(next);
  }
}

}  // namespace

void orthogonalize(const Tensor& matrix, std::int64_t iterations) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  if (rows <= columns) {
    orthogonalize_wide(matrix, iterations);
    return;
  }
  const Device& device = matrix.device();
  const Tensor turned =
      Tensor::empty({columns, rows}, matrix.dtype(), device, MemoryTag::workspace);
  const auto turn = [&](const Tensor& from, const Tensor& to) {
    const Shape from_shape = {1, from.shape()[0], from.shape()[1]};
    const Shape to_shape = {1, to.shape()[0], to.shape()[1]};
    on(device,
       [&](auto backend) { transpose(backend, from.reshape(from_shape), to.reshape(to_shape)); });
  };
  turn(matrix, turned);
  orthogonalize_wide(turned, iterations);
  turn(turned, matrix);
}

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
