#include "framework/model/vocabulary_readout.h"

#include "framework/nn/embedding.h"

namespace longspan {
namespace {

class VocabularyReadout : public Readout {
 public:
  VocabularyReadout(const Scope& scope, const Body& body, const ModelSetting& setting)
      : VocabularyReadout(scope, body.vocabulary(), body.end(), setting) {}

  std::vector<Term> terms(const States& states,
                          const Reading& reading,
                          const Pass& pass) const override {
    const Tensor targets = columns_of(reading, "targets", states.time, device_);
    return {
        {.name = "loss",
         .values = output_.losses(
             states.hidden, targets, states.time, pass.training ? smoothing_ : LabelSmoothing{}),
         .count = "tokens"}};
  }
  Variable scores(const States& states, const Reading& reading, const Pass&) const override {
    return output_.logits(states.hidden, states.time, reading.only_last);
  }
  const Part& part() const override { return output_.part(); }

 private:
  VocabularyReadout(const Scope& scope,
                    std::int64_t vocabulary,
                    const BodyEnd& end,
                    const ModelSetting& setting)
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
  OutputLayer output_;
};

}  // namespace

ReadoutFactory vocabulary_readout() {
  return [](const Scope& scope, const Body& body, const ModelSetting& setting) {
    return std::make_unique<VocabularyReadout>(scope, body, setting);
  };
}

}  // namespace longspan
