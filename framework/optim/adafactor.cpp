// Adafactor (Shazeer & Stern 2018): second moments of a matrix are factored into row and column
// moments.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "checkpoints/training_state.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/precondition.h"
#include "framework/nn/parameters.h"
#include "framework/optim/optimizer_options.h"
#include "framework/optim/optimizer_rule.h"
#include "framework/optim/parameter_state.h"

namespace longspan {

namespace {

// Factored second moments (Adafactor): moving averages of squared gradients by row and by column.

// Over the last two axes of every parameter with at least two; earlier axes count matrices. The
// moments cover unsharded tensors and are small: every rank holds all of them, in f64, and the
// first rank saves them. The parameters must outlive it.
class FactoredSecondMoment {
 public:
  explicit FactoredSecondMoment(const Parameters& parameters);

  static bool has(const Parameter& parameter) { return parameter.global_shape.dimensions() > 1; }

  // Collective. means = beta2 * means + (1 - beta2) * means of (factor * gradient)^2 + epsilon.
  void update(double factor, double epsilon, double beta2);
  // Replaces shard_gradient of parameter `index` by factor * shard_gradient / sqrt(v). v[r, c] is
  // row mean r times column mean c over the mean of the rows.
  void divide_by_root(std::size_t index, double factor) const;

  // "optimizer/exp_avg_sq_row/PARAMETER", the shape without the last axis, and
  // "optimizer/exp_avg_sq_col/PARAMETER", without the last but one.
  void add_to(TrainingState& state) const;

 private:
  // Moments of a parameter; empty for a vector.
  struct Means {
    Tensor rows;
    Tensor columns;
    // Indices of this rank's rows and columns in the unsharded tensor.
    std::vector<std::int64_t> row_positions = {};
    std::vector<std::int64_t> column_positions = {};
  };

  const Parameters& parameters_;
  std::vector<Means> means_;
};

std::vector<std::int64_t> without(std::span<const std::int64_t> extents, std::size_t axis) {
  std::vector<std::int64_t> rest(extents.begin(), extents.end());
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
  return rest;
}

// Returns the row-major indices of a box's elements in the unsharded tensor.
std::vector<std::int64_t> positions_in_full(const std::vector<std::int64_t>& box,
                                            const std::vector<std::int64_t>& offset,
                                            const std::vector<std::int64_t>& whole) {
  std::vector<std::int64_t> places = {0};
  for (std::size_t axis = 0; axis < box.size(); ++axis) {
    std::vector<std::int64_t> finer;
    for (const std::int64_t place : places)
      for (std::int64_t i = 0; i < box[axis]; ++i)
        finer.push_back(place * whole[axis] + offset[axis] + i);
    places = std::move(finer);
  }
  return places;
}

// This rank's shard of a parameter, with a value for each of its rows and columns.
MatrixPart part_of(const Parameter& parameter, const Tensor& by_row, const Tensor& by_column) {
  return {.elements = parameter.shard_gradient,
          .first = parameter.shard_begin,
          .rows = parameter.shape[-2],
          .columns = parameter.shape[-1],
          .by_row = by_row,
          .by_column = by_column};
}

bool is_owned(const Parameter& parameter) { return parameter.shard_begin < parameter.shard_end; }

// means = beta2 * means + (1 - beta2) * sums / terms.
void move(const Tensor& means, std::span<const double> sums, std::int64_t terms, double beta2) {
  dispatch_on_host(means.device(), [&] {
    const auto values = means.span<double>();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = beta2 * values[i] + (1 - beta2) * sums[i] / static_cast<double>(terms);
  });
}

FactoredSecondMoment::FactoredSecondMoment(const Parameters& parameters) : parameters_(parameters) {
  for (const auto& parameter : parameters.trained()) {
    Means& means = means_.emplace_back();
    if (!has(*parameter)) continue;
    const auto zeros = [&](const std::vector<std::int64_t>& extents) {
      return Tensor::zeros(Shape(std::span<const std::int64_t>(extents)),
                           DType::f64,
                           parameters.device().host(),
                           MemoryTag::optimizer);
    };
    const auto whole = parameter->global_shape.extents(), piece = parameter->shape.extents();
    const std::vector<std::int64_t> offset = parameter->offset();
    const std::size_t last = whole.size() - 1;
    means.rows = zeros(without(whole, last));
    means.columns = zeros(without(whole, last - 1));
    means.row_positions =
        positions_in_full(without(piece, last), without(offset, last), without(whole, last));
    means.column_positions = positions_in_full(
        without(piece, last - 1), without(offset, last - 1), without(whole, last - 1));
  }
}

void FactoredSecondMoment::update(double factor, double epsilon, double beta2) {
  const Device& device = parameters_.device();
  std::int64_t lines = 0;
  for (const Means& means : means_)
    if (means.rows.defined()) lines += means.rows.elements() + means.columns.elements();
  // Rows and columns of each parameter, concatenated.
  std::vector<double> sums(static_cast<std::size_t>(lines));
  double* next = sums.data();
  for (std::size_t i = 0; i < means_.size(); ++i) {
    const Means& means = means_[i];
    if (!means.rows.defined()) continue;
    const Parameter& parameter = *parameters_.trained()[i];
    double* const rows = next;
    double* const columns = rows + means.rows.elements();
    next = columns + means.columns.elements();
    if (!is_owned(parameter) || !parameters_.is_primary_owner(parameter)) continue;
    const auto zeros = [&](const std::vector<std::int64_t>& places) {
      return Tensor::zeros({std::ssize(places)}, DType::f64, device, MemoryTag::workspace);
    };
    const Tensor by_row = zeros(means.row_positions), by_column = zeros(means.column_positions);
    on(device, [&](auto backend) {
      add_squares(backend, factor, epsilon, part_of(parameter, by_row, by_column));
    });
    const auto put = [](const Tensor& found, const std::vector<std::int64_t>& places, double* to) {
      const Tensor here = found.to_host();
      for (std::size_t k = 0; k < places.size(); ++k) to[places[k]] = here.span<double>()[k];
    };
    put(by_row, means.row_positions, rows);
    put(by_column, means.column_positions, columns);
  }
  sum_over_elements(parameters_, sums);
  std::span<const double> rest(sums);
  for (std::size_t i = 0; i < means_.size(); ++i) {
    const Means& means = means_[i];
    if (!means.rows.defined()) continue;
    const Shape& whole = parameters_.trained()[i]->global_shape;
    move(means.rows, rest, whole[-1], beta2);
    rest = rest.subspan(static_cast<std::size_t>(means.rows.elements()));
    move(means.columns, rest, whole[-2], beta2);
    rest = rest.subspan(static_cast<std::size_t>(means.columns.elements()));
  }
}

void FactoredSecondMoment::divide_by_root(std::size_t index, double factor) const {
  const Means& means = means_[index];
  const Parameter& parameter = *parameters_.trained()[index];
  if (!is_owned(parameter)) return;
  const std::int64_t rows = parameter.global_shape[-2];
  const auto all_rows = means.rows.span<double>(), all_columns = means.columns.span<double>();
  // Mean over the rows of the matrix that contains a row.
  const auto mean_of_rows = [&](std::int64_t row) {
    const std::int64_t first = row / rows * rows;
    double sum = 0;
    for (std::int64_t r = first; r < first + rows; ++r)
      sum += all_rows[static_cast<std::size_t>(r)];
    return sum / static_cast<double>(rows);
  };
  std::vector<double> by_row, by_column;
  std::int64_t matrix = -1;
  double mean = 0;
  for (const std::int64_t row : means.row_positions) {
    if (row / rows != matrix) {
      matrix = row / rows;
      mean = mean_of_rows(row);
    }
    by_row.push_back(1 / std::sqrt(all_rows[static_cast<std::size_t>(row)] / mean));
  }
  for (const std::int64_t column : means.column_positions)
    by_column.push_back(1 / std::sqrt(all_columns[static_cast<std::size_t>(column)]));
  const auto here = [&](const std::vector<double>& numbers) {
    return Tensor::from<double>(
        numbers, {std::ssize(numbers)}, parameters_.device(), MemoryTag::workspace);
  };
  const Tensor row_factors = here(by_row), column_factors = here(by_column);
  on(parameters_.device(), [&](auto backend) {
    scale_lines(backend, factor, part_of(parameter, row_factors, column_factors));
  });
}

void FactoredSecondMoment::add_to(TrainingState& state) const {
  const bool owned = parameters_.mesh().world.rank() == 0;
  for (std::size_t i = 0; i < means_.size(); ++i) {
    const Parameter& parameter = *parameters_.trained()[i];
    if (!means_[i].rows.defined() || !parameters_.reads(parameter)) continue;
    const std::string& name = parameter.name;
    state.add("optimizer/exp_avg_sq_row/" + name, means_[i].rows, owned);
    state.add("optimizer/exp_avg_sq_col/" + name, means_[i].columns, owned);
  }
}

bool is_vector(const Parameter& parameter) { return !FactoredSecondMoment::has(parameter); }

class Adafactor : public OptimizerRule {
 public:
  Adafactor(const OptimizerOptions& options, const Parameters& parameters)
      : options_(options),
        parameters_(parameters),
        factored_(parameters),
        second_("exp_avg_sq", parameters, is_vector) {
    if (options.beta1) first_.emplace("exp_avg", parameters);
  }

  double learning_rate(double scheduled, std::int64_t update) const override {
    if (!options_.adafactor.relative_step) return scheduled;
    const auto t = static_cast<double>(update);
    return std::min(options_.adafactor.slow_start ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
  }

  void update(const UpdateStep& step) override {
    // Norms before the step.
    const std::vector<double> weights = options_.adafactor.scale_by_weights
                                            ? squared_norms_of_weights(parameters_)
                                            : std::vector<double>();
    write_directions(step);
    const std::vector<double> directions = squared_norms_of_gradients(parameters_);
    for (std::size_t i = 0; i < directions.size(); ++i) {
      const Parameter& parameter = *parameters_.trained()[i];
      if (!parameters_.reads(parameter)) continue;
      const auto root_mean = [&](double squares) {
        return std::sqrt(squares / static_cast<double>(parameter.global_shape.elements()));
      };
      double rate = step.learning_rate;
      if (!weights.empty()) rate *= std::max(options_.adafactor.min_scale, root_mean(weights[i]));
      const double too_long = root_mean(directions[i]) / options_.adafactor.clipping_threshold;
      follow(parameter, rate, rate / std::max(too_long, 1.0));
    }
  }

  std::string state_signature() const override {
    return first_ ? "the factored second moments and the first moment of adafactor"
                  : "the factored second moments of adafactor";
  }
  void add_to(TrainingState& state) const override {
    factored_.add_to(state);
    second_.add_to(state);
    if (first_) first_->add_to(state);
  }

 private:
  void write_directions(const UpdateStep& step) {
    const double beta2 =
        1 - std::pow(static_cast<double>(step.number), -options_.adafactor.decay_exponent);
    const double epsilon = options_.epsilon.value_or(1e-30);
    factored_.update(step.gradient_factor, epsilon, beta2);
    for (std::size_t i = 0; const auto& parameter : parameters_.trained()) {
      const std::size_t index = i++;
      if (!parameters_.reads(*parameter)) continue;
      if (!is_vector(*parameter)) {
        factored_.divide_by_root(index, step.gradient_factor);
        continue;
      }
      on(parameters_.device(), [&](auto backend) {
        rms_precondition(backend,
                         {.gradient = parameter->shard_gradient,
                          .second = second_.of(*parameter),
                          .gradient_factor = step.gradient_factor,
                          .beta2 = beta2,
                          .epsilon = epsilon});
      });
    }
  }

  // The decay is proportional to the rate, the step to the rate after clipping.
  void follow(const Parameter& parameter, double rate, double step) const {
    const double decay = parameter.decays ? options_.weight_decay : 0;
    ApplyUpdate update = {.weight = parameter.shard_master,
                          .direction = parameter.shard_gradient,
                          .compute = parameter.shard_compute,
                          .decay_factor = 1 - decay * rate,
                          .rate = step};
    on(parameters_.device(), [&](auto backend) {
      if (first_) {
        const double beta1 = *options_.beta1;
        const Tensor moment = first_->of(parameter);
        scale(backend, beta1, moment, moment);
        accumulate(backend, (1 - beta1) * step, parameter.shard_gradient, moment);
        update.direction = moment;
        update.rate = 1;
      }
      apply_update(backend, update);
    });
  }

  OptimizerOptions options_;
  const Parameters& parameters_;
  FactoredSecondMoment factored_;
  StateBuffer second_;  // of vectors
  std::optional<StateBuffer> first_;
};

}  // namespace

std::unique_ptr<OptimizerRule> make_adafactor(const OptimizerOptions& options,
                                              const Parameters& parameters) {
  return std::make_unique<Adafactor>(options, parameters);
}

}  // namespace longspan
