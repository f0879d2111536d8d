// Optimizers, gradient clipping and schedules (PyTorch, fairseq).
#include <cmath>

#include "framework/optim/optimizer.h"
#include "framework/optim/schedule.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

// Sets the gradient of a parameter as a backward pass does.
void set_gradient(const Parameter& parameter, const Tensor& gradient) {
  parameter.variable.clear_gradient();
  backward({parameter.variable}, {gradient.clone()});
}

// Minimizes a noisy parabola: each gradient depends on the previous steps.
struct Walker {
  std::string name;
  Weight parameter;

  void begin(const GoldenFile& file) const {
    parameter->master.copy_from(file.numbers("inputs/" + name + "0"));
  }
  void set_step_gradient(const GoldenFile& file, std::int64_t step) const {
    const double* const curvature = file.numbers("inputs/" + name + "_curvature").data<double>();
    const double* const target = file.numbers("inputs/" + name + "_target").data<double>();
    const Tensor noise = file.numbers("inputs/" + name + "_noise").slice(step, step + 1);
    const Tensor gradient = parameter->master.empty_like();
    for (std::int64_t i = 0; i < gradient.elements(); ++i)
      gradient.data<double>()[i] =
          curvature[i] * (parameter->master.data<double>()[i] - target[i]) +
          noise.data<double>()[i];
    set_gradient(*parameter, gradient);
    compare(file, "grad_" + name, step, gradient);
  }
  void compare(const GoldenFile& file,
               const std::string& output,
               std::int64_t step,
               const Tensor& found) const {
    const Tensor& steps = file.numbers("outputs/" + output);
    expect_near(file.name() + ": " + output + " of step " + std::to_string(step),
                found,
                steps.slice(step, step + 1),
                output_tolerance);
  }
};

void check_optimizer(const GoldenFile& file, const OptimizerOptions& options) {
  const std::int64_t steps = file.integer("steps");
  file.real("p_scale");  // scale of the initial parameters, which are in the file
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const auto walker = [&](const std::string& name, const Shape& shape) {
    // The reference applies weight decay to every parameter.
    return Walker{name, parameters.add(name, shape, -1, {}, true)};
  };
  const Walker walkers[] = {walker("matrix", {file.integer("rows"), file.integer("cols")}),
                            walker("vector", {file.integer("size")})};
  parameters.allocate(Random(0));
  Optimizer optimizer(options, parameters);
  for (const Walker& each : walkers) each.begin(file);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const Walker& each : walkers) each.set_step_gradient(file, step);
    optimizer.update(optimizer.learning_rate(file.real("lr")), 1);
    for (const Walker& each : walkers) each.compare(file, each.name, step, each.parameter->master);
  }
}

}  // namespace

void check_sgd(const GoldenFile& file) {
  check_optimizer(file,
                  {.kind = OptimizerKind::sgd,
                   .weight_decay = file.real("weight_decay"),
                   .momentum = file.real("momentum"),
                   .nesterov = file.flag("nesterov")});
}

void check_adam(const GoldenFile& file) {
  check_optimizer(file,
                  {.kind = file.flag("decoupled") ? OptimizerKind::adamw : OptimizerKind::adam,
                   .beta1 = file.real("beta1"),
                   .beta2 = file.real("beta2"),
                   .epsilon = file.real("eps"),
                   .weight_decay = file.real("weight_decay")});
}

void check_lamb(const GoldenFile& file) {
  // The reference clamps the weight norm if it has no bias correction.
  const bool corrects = file.flag("debias");
  check_optimizer(
      file,
      {.kind = OptimizerKind::lamb,
       .beta1 = file.real("beta1"),
       .beta2 = file.real("beta2"),
       .epsilon = file.real("eps"),
       .weight_decay = file.real("weight_decay"),
       .lamb = {.bias_correction = corrects, .max_weight_norm = corrects ? 0.0 : 10.0}});
}

void check_adafactor(const GoldenFile& file) {
  OptimizerOptions options = {.kind = OptimizerKind::adafactor,
                              .epsilon = file.real("eps1"),
                              .weight_decay = file.real("weight_decay")};
  // A negative beta1 disables the first moment.
  if (file.real("beta1") >= 0) options.beta1 = file.real("beta1");
  options.adafactor = {.relative_step = file.flag("relative_step"),
                       .slow_start = file.flag("warmup_init"),
                       .scale_by_weights = file.flag("scale_parameter"),
                       .min_scale = file.real("eps2"),
                       .clipping_threshold = file.real("clip_threshold"),
                       .decay_exponent = -file.real("decay_rate")};
  check_optimizer(file, options);
}

void check_clipping(const GoldenFile& file) {
  for (const char* const described : {"rows", "cols", "size"}) file.integer(described);
  file.real("scale");  // scale of the gradients, which are in the file
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  std::vector<Weight> all;
  const auto input = [](std::size_t i) { return "inputs/grad" + std::to_string(i); };
  for (std::size_t i = 0; file.has(input(i)); ++i)
    all.push_back(parameters.add(std::to_string(i), file.numbers(input(i)).shape(), -1, {}, false));
  parameters.allocate(Random(0));
  for (std::size_t i = 0; i < all.size(); ++i) set_gradient(*all[i], file.numbers(input(i)));
  const Tensor squares = Tensor::empty({1}, DType::f64, parameters.device());
  sum_squared_gradients(parameters, squares);
  const double norm = std::sqrt(squares.item());
  expect_output(file, "norm", testing::tensor_of<double>({norm}, {1}));
  const double factor = clip_factor(norm, file.real("max_norm"));
  for (std::size_t i = 0; i < all.size(); ++i) {
    testing::Values clipped = testing::values_of(all[i]->variable.gradient());
    for (double& value : clipped) value *= factor;
    expect_output(file,
                  "clipped" + std::to_string(i),
                  testing::tensor_of<double>(clipped, {std::ssize(clipped)}));
  }
}

void check_schedules(const GoldenFile& file) {
  const double rate = file.real("lr");
  const double minimum = file.real("min_lr");
  // A negative value means 0 in fairseq, and the minimum rate for cosine.
  const double start = file.real("warmup_init_lr");
  const std::int64_t warmup = file.integer("warmup");
  const std::int64_t total = file.integer("total");
  const double width = static_cast<double>(file.integer("d_model"));
  const double noam_peak = file.real("factor") / std::sqrt(width * static_cast<double>(warmup));
  const std::pair<const char*, LrSchedule> schedules[] = {
      {"inverse_sqrt",
       {.kind = ScheduleKind::inverse_sqrt,
        .rate = rate,
        .warmup_start = start < 0 ? 0 : start,
        .warmup = warmup}},
      {"cosine_warmup",
       {.kind = ScheduleKind::cosine,
        .rate = rate,
        .end_rate = minimum,
        .warmup_start = start < 0 ? minimum : start,
        .warmup = warmup,
        .total = total,
        .end = ScheduleEnd::restart}},
      {"cosine_torch",
       {.kind = ScheduleKind::cosine,
        .rate = rate,
        .end_rate = minimum,
        .total = total,
        .end = ScheduleEnd::go_on}},
      {"linear",
       {.kind = ScheduleKind::linear,
        .rate = rate,
        .end_rate = file.real("end_lr"),
        .warmup = warmup,
        .total = total}},
      {"noam", {.kind = ScheduleKind::inverse_sqrt, .rate = noam_peak, .warmup = warmup}}};
  const Tensor& steps = file.ids("outputs/step");
  for (const auto& [name, schedule] : schedules) {
    testing::Values rates;
    for (const std::int64_t step : steps.span<std::int64_t>()) rates.push_back(schedule.at(step));
    expect_output(file, name, testing::tensor_of<double>(rates, {std::ssize(rates)}));
  }
}

}  // namespace longspan::golden
