#include "framework/autograd/ops.h"
#include "framework/modeling/argmax.h"
#include "framework/modeling/heads.h"
#include "framework/modeling/pooling.h"
#include "framework/modeling/sequence_parallel.h"

namespace longspan {
namespace {

class Classes : public OutputHead {
 public:
  Classes(const Scope& scope, const OutputHeadSpec& end, const ModelBuildOptions& setting)
      : device_(setting.device),
        mesh_(setting.mesh),
        part_{0, setting.classes, setting.classes},
        pool_(scope.child("pooling"), end.pooling, end.width, end.initial),
        dropout_(end.dropout),
        scores_(
            scope,
            {.in = end.width, .out = setting.classes, .initial = end.initial, .hidden = false}) {
    if (end.class_layer)
      layer_.emplace(scope.child("layer"),
                     Linear::Options{.in = end.width, .out = end.width, .initial = end.initial});
  }

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext& pass) const override {
    const Tensor& label = field_of(reading.fields, "label");
    const std::int64_t rows = label.elements();
    const Range own = rows_with_losses(mesh_, rows);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows), ignored_target);
    // A label that is absent from training has no loss.
    if (!label.device().state().is_meta())
      for (std::int64_t row = own.begin; row < own.end; ++row)
        if (const std::int64_t id = label.data<std::int64_t>()[row]; id < part_.total)
          labels[static_cast<std::size_t>(row)] = id;
    Variable losses = cross_entropy(of_rows(states, reading, pass),
                                    host_field(labels, {rows}, device_),
                                    {.vocabulary = part_.total},
                                    Communicator());
    return {{.name = "loss", .values = sequence_losses(std::move(losses), mesh_), .count = "rows"}};
  }

  Variable scores(const BackboneOutput& states,
                  const ModelInput& reading,
                  const ForwardContext& pass) const override {
    const Variable all = of_rows(states, reading, pass);
    return reshape(all, {all.shape()[0], part_.count});
  }

  Tensor predictions(const BackboneOutput& states,
                     const ModelInput& reading,
                     const ForwardContext& pass) const override {
    const NoGradGuard unrecorded;
    return argmax_classes(of_rows(states, reading, pass).value());
  }

  const ShardRange& part() const override { return part_; }

 private:
  // [rows, 1, classes] in the accumulator dtype, on every rank that shares time.
  Variable of_rows(const BackboneOutput& states,
                   const ModelInput& reading,
                   const ForwardContext& pass) const {
    Variable vectors = pool_(states.hidden, states.time, field_of(reading.fields, "length"));
    if (layer_) {
      // The pooled vectors are replicated, so the time is not sharded here.
      ForwardContext whole = pass.child("class_layer");
      whole.time = {};
      vectors = drop(tanh((*layer_)(vectors)), dropout_, whole);
    }
    const Variable all = scores_(vectors);
    return cast(all, accumulator_of(all.value().dtype()));
  }

  Device device_;
  ProcessMesh mesh_;
  ShardRange part_;
  Pooler pool_;
  double dropout_;
  std::optional<Linear> layer_;
  Linear scores_;
};

}  // namespace

OutputHeadFactory classification_head() {
  return [](const Scope& scope, const Backbone& body, const ModelBuildOptions& setting) {
    require(setting.classes > 0, "a classification head requires at least 1 class");
    return std::make_unique<Classes>(scope.child("output"), body.end(), setting);
  };
}

}  // namespace longspan
