#include "framework/modeling/lm_head.h"

#include "framework/nn/embedding.h"

namespace longspan {
namespace {

class VocabularyReadout : public OutputHead {
 public:
  VocabularyReadout(const Scope& scope, const Backbone& body, const ModelBuildOptions& setting)
      : VocabularyReadout(scope, body.vocabulary(), body.end(), setting) {}

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext& pass) const override {
    const Tensor targets = columns_of(reading, "targets", states.time, device_);
    return {
        {.name = "loss",
         .values = output_.losses(
             states.hidden, targets, states.time, pass.training ? smoothing_ : LabelSmoothing{}),
         .count = "tokens"}};
  }
  Variable scores(const BackboneOutput& states,
                  const ModelInput& reading,
                  const ForwardContext&) const override {
    return output_.logits(states.hidden, states.time, reading.only_last);
  }
  const ShardRange& part() const override { return output_.part(); }

 private:
  VocabularyReadout(const Scope& scope,
                    std::int64_t vocabulary,
                    const OutputHeadSpec& end,
                    const ModelBuildOptions& setting)
      : device_(setting.device),
        smoothing_(setting.smoothing),
        output_(scope.child("output"),
                {.vocabulary = vocabulary,
                 .width = end.width,
                 .bias = end.bias,
                 .scale = end.logit_scale,
                 .cap = end.logit_cap,
                 .initial = end.initial,
                 .chunks = setting.memory.loss_chunks},
                end.table) {}

  Device device_;
  LabelSmoothing smoothing_;
  LMHead output_;
};

}  // namespace

OutputHeadFactory lm_head() {
  return [](const Scope& scope, const Backbone& body, const ModelBuildOptions& setting) {
    return std::make_unique<VocabularyReadout>(scope, body, setting);
  };
}

}  // namespace longspan
