#include "framework/autograd/losses.h"
#include "framework/autograd/ring_attention.h"
#include "framework/core/async_copy.h"
#include "framework/modeling/heads.h"
#include "framework/modeling/sequence_parallel.h"
#include "framework/nn/layers.h"

namespace longspan {
namespace {

// For all positions of a pass.
struct Outputs {
  Variable logits;  // [rows, time, actions], accumulator dtype
  Variable values;  // [rows, time, 1]
};

class Policy : public OutputHead {
 public:
  Policy(const Scope& scope, const OutputHeadSpec& end, const ModelBuildOptions& setting)
      : device_(setting.device),
        mesh_(setting.mesh),
        options_(setting.policy),
        part_{0, setting.classes + 1, setting.classes + 1},
        policy_(scope.child("policy"),
                {.in = end.width, .out = setting.classes, .initial = end.initial, .hidden = false}),
        value_(scope.child("value"),
               {.in = end.width, .out = 1, .initial = end.initial, .hidden = false}) {}

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext& pass) const override {
    const Range read = positions_read(pass, reading.time());
    const Outputs outputs = of_all(states, read);
    const PolicyTargets results = own_results(reading, read, outputs.logits.value().dtype());
    const auto term = [&](const char* name, PolicyLossKind function, double weight) -> LossTerm {
      const Variable& x = function == PolicyLossKind::square ? outputs.values : outputs.logits;
      Variable values = policy_losses(function, x, results, options_.clip);
      return {.name = name,
              .values = sequence_losses(std::move(values), mesh_),
              .count = "tokens",
              .weight = weight};
    };
    return {term("policy", PolicyLossKind::clipped, 1),
            term("value", PolicyLossKind::square, options_.value_weight),
            term("entropy", PolicyLossKind::entropy, -options_.entropy_weight)};
  }

  Variable scores(const BackboneOutput& states,
                  const ModelInput& reading,
                  const ForwardContext& pass) const override {
    const NoGradGuard unrecorded;
    const Outputs outputs = of_all(states, positions_read(pass, reading.time()));
    const Tensor logits = in_f64(outputs.logits), values = in_f64(outputs.values);
    const Shape& shape = logits.shape();
    const std::int64_t actions = shape.width();
    const Tensor all =
        Tensor::empty(shape.with(2, actions + 1), DType::f64, device_.host(), MemoryTag::workspace);
    dispatch_on_host(all.device(), [&] {
      for (std::int64_t i = 0; i < shape.rows(); ++i) {
        double* const to = all.data<double>() + i * (actions + 1);
        std::copy_n(logits.data<double>() + i * actions, actions, to);
        to[actions] = values.data<double>()[i];
      }
    });
    return Variable(all);
  }

  const ShardRange& part() const override { return part_; }

 private:
  Outputs of_all(const BackboneOutput& states, const Range& read) const {
    const std::int64_t rows = states.hidden.shape()[0], time = read.count();
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < rows * time; ++i) places.push_back(read.begin + i % time);
    // Rounded logits would change probabilities by more than a training step does.
    const DType exact = accumulator_of(states.hidden.value().dtype());
    const Variable hidden = cast(states.hidden, exact);
    const auto whole = [&](const Linear& head) {
      head.check_width(hidden);
      const Variable here = linear(hidden, cast(head.weight(), exact), cast(head.bias(), exact));
      return gather_positions(here, states.time.outside(), places, time, mesh_.time);
    };
    return {whole(policy_), whole(value_)};
  }

  static Tensor in_f64(const Variable& x) { return cast(x, DType::f64).value().to_host(); }

  // Targets of the rows whose losses this rank computes; other rows have no action.
  PolicyTargets own_results(const ModelInput& reading, const Range& read, DType dtype) const {
    const auto columns = [&](const char* name) {
      return slice_columns(field_of(reading.fields, name), read);
    };
    const Tensor actions = columns("actions");
    const std::int64_t rows = actions.shape()[0], time = read.count();
    const Range own = rows_with_losses(mesh_, rows);
    const Tensor mine =
        Tensor::empty(actions.shape(), DType::i64, device_.host(), MemoryTag::workspace);
    dispatch_on_host(mine.device(), [&] {
      const auto all = actions.span<std::int64_t>();
      for (std::int64_t i = 0; i < rows * time; ++i) {
        const bool is_own = i / time >= own.begin && i / time < own.end;
        mine.data<std::int64_t>()[i] = is_own ? all[static_cast<std::size_t>(i)] : ignored_target;
      }
    });
    const auto numbers = [&](const char* name) { return numbers_of(columns(name), dtype); };
    return {.action = copy_async(mine, device_),
            .before = numbers("log_probabilities"),
            .advantage = numbers("advantages"),
            .wanted = numbers("returns")};
  }

  Tensor numbers_of(const Tensor& field, DType dtype) const {
    if (dtype == DType::f64) return copy_async(field, device_);
    const Tensor narrow =
        Tensor::empty(field.shape(), DType::f32, device_.host(), MemoryTag::workspace);
    dispatch_on_host(narrow.device(), [&] {
      std::ranges::transform(field.span<double>(), narrow.span<float>().begin(), [](double x) {
        return static_cast<float>(x);
      });
    });
    return copy_async(narrow, device_);
  }

  Device device_;
  ProcessMesh mesh_;
  PolicyOptions options_;
  ShardRange part_;
  Linear policy_;
  Linear value_;
};

}  // namespace

OutputHeadFactory policy_head() {
  return [](const Scope& scope, const Backbone& body, const ModelBuildOptions& setting) {
    require(setting.classes > 0, "a policy head requires at least 1 action");
    return std::make_unique<Policy>(scope, body.end(), setting);
  };
}

}  // namespace longspan
