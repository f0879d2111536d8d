#include "framework/autograd/losses.h"
#include "framework/core/async_copy.h"
#include "framework/kernels/logistic_mixture.h"
#include "framework/modeling/heads.h"
#include "framework/modeling/sequence_parallel.h"
#include "framework/nn/embedding.h"

namespace longspan {
namespace {

Tensor targets_of(const PixelSequence& sequence, const ModelInput& reading) {
  return sequence.targets_of(field_of(reading.fields, "pixels"),
                             field_of(reading.fields, "length"));
}

// An independent categorical distribution over 256 values per channel.
class Categories : public OutputHead {
 public:
  Categories(const Scope& scope, const OutputHeadSpec& end, const ModelBuildOptions& setting)
      : device_(setting.device),
        sequence_(*end.pixels),
        output_(scope,
                {.vocabulary = pixel_levels,
                 .width = end.width,
                 .bias = end.bias,
                 .initial = end.initial,
                 .chunks = setting.memory.loss_chunks}) {}

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext&) const override {
    const Tensor targets = columns_of(targets_of(sequence_, reading), states.time, device_);
    return {{.name = "loss",
             .values = output_.losses(states.hidden, targets, states.time),
             .count = "tokens"}};
  }
  Variable scores(const BackboneOutput& states,
                  const ModelInput& reading,
                  const ForwardContext&) const override {
    return output_.logits(states.hidden, states.time, reading.only_last);
  }
  const ShardRange& part() const override { return output_.part(); }

 private:
  Device device_;
  PixelSequence sequence_;
  LMHead output_;
};

// A mixture of logistics over all channels of a pixel. The layer is small, so every tensor rank
// replicates it.
class Mixtures : public OutputHead {
 public:
  Mixtures(const Scope& scope, const OutputHeadSpec& end, const ModelBuildOptions& setting)
      : device_(setting.device),
        mesh_(setting.mesh),
        sequence_(*end.pixels),
        mixtures_(end.mixtures),
        part_(whole(mixture_parameters(end.mixtures, end.pixels->shape().channels))),
        numbers_(scope,
                 {.in = end.width, .out = part_.total, .initial = end.initial, .hidden = false}) {}

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext&) const override {
    const Tensor values = columns_outside(targets_of(sequence_, reading), states.time);
    const Variable losses = logistic_mixture_losses(numbers_of(states.hidden), values, mixtures_);
    return {{.name = "loss", .values = sequence_losses(sum(losses), mesh_), .count = "tokens"}};
  }
  Variable scores(const BackboneOutput& states,
                  const ModelInput& reading,
                  const ForwardContext&) const override {
    if (!reading.only_last) return numbers_of(states.hidden);
    const std::vector<std::int64_t> last(static_cast<std::size_t>(states.hidden.shape()[0]),
                                         states.hidden.shape()[1] - 1);
    return numbers_of(gather_columns(states.hidden, last, 1));
  }
  const ShardRange& part() const override { return part_; }

 private:
  static ShardRange whole(std::int64_t count) { return {0, count, count}; }
  // Computed in the accumulator dtype: bf16 cannot resolve means to fractions of 1 / 255.
  Variable numbers_of(const Variable& hidden) const {
    const DType wide = accumulator_of(hidden.value().dtype());
    numbers_.check_width(hidden);
    return linear(cast(hidden, wide), cast(numbers_.weight(), wide), cast(numbers_.bias(), wide));
  }
  // Returns the columns of `values` [rows, time * channels] at this rank's positions.
  Tensor columns_outside(const Tensor& values, const SequenceShard& time) const {
    const std::int64_t together = sequence_.channels_per_position(), rows = values.shape()[0];
    const Tensor result = Tensor::empty({rows * total_count(time.outside()), together},
                                        DType::i64,
                                        values.device(),
                                        MemoryTag::workspace);
    dispatch_on_host(values.device(), [&] {
      auto* to = result.data<std::int64_t>();
      for (std::int64_t row = 0; row < rows; ++row)
        for (const Range& range : time.outside())
          to = std::copy_n(
              values.data<std::int64_t>() + row * values.shape()[1] + range.begin * together,
              range.count() * together,
              to);
    });
    return copy_async(result, device_);
  }

  Device device_;
  ProcessMesh mesh_;
  PixelSequence sequence_;
  std::int64_t mixtures_;
  ShardRange part_;
  Linear numbers_;
};

}  // namespace

OutputHeadFactory pixel_head() {
  return [](const Scope& scope,
            const Backbone& body,
            const ModelBuildOptions& setting) -> std::unique_ptr<OutputHead> {
    const OutputHeadSpec end = body.end();
    if (!end.pixels)
      throw ConfigurationError(
          "run.task: image_generation requires model.family: image_transformer");
    if (end.mixtures > 0) return std::make_unique<Mixtures>(scope.child("output"), end, setting);
    return std::make_unique<Categories>(scope.child("output"), end, setting);
  };
}

}  // namespace longspan
