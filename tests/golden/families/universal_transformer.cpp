// The Universal Transformer (andreamad8's Universal-Transformer-Pytorch), with fixed steps and with
// ACT. The block is the reference's encoder layer or a single matrix.
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/kernels/halting.h"
#include "framework/nn/adaptive_computation_time.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/softmax_attention.h"
#include "models/step_timing_signals.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

// gain (x - mean) / (deviation + 1e-6) + bias, with the unbiased standard deviation.
Variable norm_by_deviation(const Variable& x, const Variable& gain, const Variable& bias) {
  const std::int64_t width = x.shape().width(), rows = x.shape().rows();
  const auto count = static_cast<double>(width);
  const Tensor y = x.value().empty_like();
  const auto deviation_of = [=](const double* row, double mean) {
    double squares = 0;
    for (std::int64_t c = 0; c < width; ++c) squares += (row[c] - mean) * (row[c] - mean);
    return std::sqrt(squares / (count - 1));
  };
  const auto mean_of = [=](const double* row) {
    double sum = 0;
    for (std::int64_t c = 0; c < width; ++c) sum += row[c];
    return sum / count;
  };
  const auto* const g = gain.value().data<double>();
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* const row = x.value().data<double>() + r * width;
    const double mean = mean_of(row), divisor = deviation_of(row, mean) + 1e-6;
    for (std::int64_t c = 0; c < width; ++c)
      y.data<double>()[r * width + c] =
          g[c] * (row[c] - mean) / divisor + bias.value().data<double>()[c];
  }
  return record(
      y, {x, gain, bias}, [=, in = x.value(), gains = gain.value()](BackwardContext& out) {
        const Tensor dx = in.empty_like();
        const Tensor dgain = out.accumulate_target(1), dbias = out.accumulate_target(2);
        for (std::int64_t r = 0; r < rows; ++r) {
          const double* const row = in.data<double>() + r * width;
          const double* const dy = out.output().data<double>() + r * width;
          const double mean = mean_of(row), deviation = deviation_of(row, mean);
          const double divisor = deviation + 1e-6;
          double sum = 0, along = 0;
          for (std::int64_t c = 0; c < width; ++c) {
            const double centered = row[c] - mean, scaled = dy[c] * gains.data<double>()[c];
            dgain.data<double>()[c] += dy[c] * centered / divisor;
            dbias.data<double>()[c] += dy[c];
            sum += scaled;
            along += scaled * centered;
          }
          for (std::int64_t c = 0; c < width; ++c)
            dx.data<double>()[r * width + c] =
                (dy[c] * gains.data<double>()[c] - sum / count) / divisor -
                along * (row[c] - mean) / ((count - 1) * deviation * divisor * divisor);
        }
        out.set(0, dx);
      });
}

// y[b, t, o] = relu(bias[o] + sum of weight[o, i, k] x[b, t + k - taps / 2, i]), zeros outside.
Variable convolution(const Variable& x, const Variable& weight, const Variable& bias) {
  const std::int64_t batch = x.shape()[0], time = x.shape()[1], in = x.shape()[2];
  const std::int64_t out = weight.shape()[0], taps = weight.shape()[2];
  // f(index in y, index in x, index in the weight).
  const auto each = [=](const auto& f) {
    for (std::int64_t row = 0; row < batch * time; ++row)
      for (std::int64_t k = 0; k < taps; ++k) {
        const std::int64_t from = row % time + k - taps / 2;
        if (from < 0 || from >= time) continue;
        const std::int64_t source = row - row % time + from;
        for (std::int64_t o = 0; o < out; ++o)
          for (std::int64_t i = 0; i < in; ++i)
            f(row * out + o, source * in + i, (o * in + i) * taps + k);
      }
  };
  const Tensor y = Tensor::empty({batch, time, out}, DType::f64, x.value().device());
  for (std::int64_t i = 0; i < y.elements(); ++i)
    y.data<double>()[i] = bias.value().data<double>()[i % out];
  each([&](std::int64_t to, std::int64_t from, std::int64_t place) {
    y.data<double>()[to] += weight.value().data<double>()[place] * x.value().data<double>()[from];
  });
  for (double& value : y.span<double>()) value = std::max(value, 0.0);
  return record(
      y,
      {x, weight, bias},
      [=, given = x.value(), weights = weight.value(), kept = y](BackwardContext& gradients) {
        const Tensor dy = gradients.release_output();
        for (std::int64_t i = 0; i < dy.elements(); ++i)
          if (kept.data<double>()[i] <= 0) dy.data<double>()[i] = 0;
        const Tensor dx = gradients.accumulate_target(0);
        const Tensor dweight = gradients.accumulate_target(1);
        const Tensor dbias = gradients.accumulate_target(2);
        for (std::int64_t i = 0; i < dy.elements(); ++i)
          dbias.data<double>()[i % out] += dy.data<double>()[i];
        each([&](std::int64_t to, std::int64_t from, std::int64_t place) {
          const double by = dy.data<double>()[to];
          dx.data<double>()[from] += by * weights.data<double>()[place];
          dweight.data<double>()[place] += by * given.data<double>()[from];
        });
      });
}

// Transition function of a file, with its weights and timing signals.
class Reference {
 public:
  explicit Reference(const GoldenFile& file)
      : file_(file),
        x_(leaf_of(file, "inputs/x")),
        parameters_(testing::backend_device(), DType::f64, ProcessMesh()),
        signals_(Scope(parameters_),
                 {.signals = {.order = StepSignalOptions::Order::tensor2tensor},
                  .positions = {},
                  .width = x_.shape().width()},
                 {.vocabulary = 0, .compute = DType::f64, .device = testing::backend_device()}) {
    expect_extent(file, "batch", x_.shape()[0]);
    expect_extent(file, "len", x_.shape()[1]);
    expect_extent(file, "d_model", x_.shape()[2]);
    const Scope scope(parameters_);
    if (file.has("inputs/upstream_ponder_cost")) {
      halting_.emplace(scope.child("halting"),
                       x_.shape().width(),
                       ActOptions{.steps = file.integer("max_hop"),
                                  .slack = 0.1,
                                  .bias = file.real("halt_bias"),
                                  .reads = ActOptions::Reads::before,
                                  .output = ActOptions::Output::interpolated,
                                  .freeze = false,
                                  .remainder_at_end = false});
      for (const std::string part : {"weight", "bias"})
        names_.push_back({"halting_" + part, {"halting/" + part}});
    } else {
      EXPECT_FALSE(file.flag("act"));
      file.real("halt_bias");  // unused without ACT
    }
    if (file.has("weights/enc_lin_weight")) {
      one_matrix_ = true;
    } else {
      make_attention(scope);
    }
    parameters_.allocate(Random(0));
    load(file, names_, parameters_);
  }

  Variable input() {
    return one_matrix_ ? x_ : linear(x_, weight("embedding_proj_weight"), Variable());
  }
  Variable read(const Variable& states, std::int64_t step) const {
    return signals_.add(states, signals_.of({{0, x_.shape()[1]}}), step);
  }
  Variable run(const Variable& states) {
    if (one_matrix_)
      return tanh_of(linear(states, weight("enc_lin_weight"), weight("enc_lin_bias")));
    AttentionContext context;
    context.mask.rules = file_.flag("causal") ? masks::causal() : masks::everything();
    const Variable attended =
        add(states,
            (*attention_)(
                norm_by_deviation(
                    states, weight("enc_layer_norm_mha_gamma"), weight("enc_layer_norm_mha_beta")),
                Variable(),
                context,
                ForwardContext()));
    Variable hidden = norm_by_deviation(
        attended, weight("enc_layer_norm_ffn_gamma"), weight("enc_layer_norm_ffn_beta"));
    hidden = convolution(hidden, weight("ff_0_weight"), weight("ff_0_bias"));
    expect_extent(file_, "d_ff", hidden.shape().width());
    return add(attended, convolution(hidden, weight("ff_1_weight"), weight("ff_1_bias")));
  }
  const AdaptiveComputationTime& halting() const { return *halting_; }

  void expect_gradients() {
    expect_gradient(file_, "x", gradient_of(x_));
    expect_weight_gradients(file_, names_, parameters_);
    for (const auto& [name, leaf] : leaves_) expect_gradient(file_, name, gradient_of(leaf));
  }

 private:
  void make_attention(const Scope& scope) {
    const std::int64_t heads = file_.integer("heads");
    const std::int64_t keys = file_.numbers("weights/key_linear_weight").shape()[0];
    attention_.emplace(
        scope.child("attention"),
        MultiHeadAttention::Options{
            .width = x_.shape().width(), .heads = heads, .dim = keys / heads, .bias = false},
        std::make_unique<SoftmaxAttention>(0));
    names_.push_back({"query_linear_weight", {"attention/query/weight"}});
    names_.push_back({"key_linear_weight", {"attention/key/weight"}});
    names_.push_back({"value_linear_weight", {"attention/value/weight"}});
    names_.push_back({"output_linear_weight", {"attention/out/weight"}});
  }
  // Returns one leaf per weight, also after repeated reads.
  Variable weight(const std::string& name) {
    const auto found = leaves_.find(name);
    if (found != leaves_.end()) return found->second;
    return leaves_.emplace(name, leaf_of(file_, "weights/" + name)).first->second;
  }

  const GoldenFile& file_;
  Variable x_;
  Parameters parameters_;
  StepTimingSignals signals_;
  bool one_matrix_ = false;
  std::optional<AdaptiveComputationTime> halting_;
  std::optional<MultiHeadAttention> attention_;
  std::vector<WeightName> names_;
  std::map<std::string, Variable> leaves_;
};

// [steps, batch, time] and [batch, time].
void expect_decisions(const GoldenFile& file, const ActResult& pondered) {
  const Shape positions = {pondered.states.shape()[0], pondered.states.shape()[1]};
  const auto steps = std::ssize(pondered.steps);
  const Device& device = pondered.states.value().device();
  const Tensor probabilities =
      Tensor::empty({steps, positions[0], positions[1]}, DType::f64, device);
  const Tensor updates = Tensor::zeros(positions, DType::f64, device);
  const Tensor remainders = Tensor::zeros(positions, DType::f64, device);
  for (std::int64_t i = 0; i < probabilities.elements(); ++i) {
    const std::int64_t place = i % positions.elements();
    const ActStep& step = pondered.steps[static_cast<std::size_t>(i / positions.elements())];
    probabilities.data<double>()[i] = 1 / (1 + std::exp(-step.logits.data<double>()[place]));
    const std::uint8_t decision = step.decisions.data<std::uint8_t>()[place];
    if (decision != Halting::rests) updates.data<double>()[place] += 1;
    if (decision == Halting::halts)
      remainders.data<double>()[place] = step.weights.data<double>()[place];
  }
  expect_output(file, "halting_p", probabilities);
  expect_output(file, "n_updates", updates);
  expect_output(file, "remainders", remainders);
}

}  // namespace

void check_universal_transformer(const GoldenFile& file) {
  Reference reference(file);
  Variable states = reference.input();
  if (!file.has("inputs/upstream_ponder_cost")) {
    for (std::int64_t step = 0; step < file.integer("max_hop"); ++step)
      states = reference.run(reference.read(states, step));
    expect_output(file, "y", states.value());
    backward({states}, {file.numbers("inputs/upstream").clone()});
  } else {
    const RecurrentBlock block = {
        .read = [&](const Variable& x, std::int64_t step) { return reference.read(x, step); },
        .run = [&](const Variable& x,
                   std::int64_t,
                   const std::shared_ptr<const ActiveRows>&) { return reference.run(x); }};
    const ActResult pondered = reference.halting()(states, block, {}, ForwardContext());
    const Variable cost =
        sum(pondered.costs, 1 / static_cast<double>(pondered.costs.value().elements()));
    expect_output(file, "y", pondered.states.value());
    expect_output(file, "ponder_cost", cost.value());
    expect_decisions(file, pondered);
    backward({pondered.states, cost},
             {file.numbers("inputs/upstream_y").clone(),
              file.numbers("inputs/upstream_ponder_cost").clone()});
  }
  reference.expect_gradients();
}

}  // namespace longspan::golden
