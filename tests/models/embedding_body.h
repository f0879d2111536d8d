// The smallest body: hidden states are the embeddings of the tokens, each for itself.
#pragma once

#include "framework/model/body.h"
#include "framework/nn/embedding.h"

namespace longspan::testing {

class EmbeddingBody : public Body {
 public:
  EmbeddingBody(const Scope& scope, const BodyEnd& end, const ModelSetting& setting)
      : end_(end),
        vocabulary_(setting.vocabulary),
        device_(setting.device),
        embedding_(scope.child("embedding"), vocabulary_, end.width, end.initial) {}

  States run(const Reading& reading, const Pass& pass) const override {
    const Tensor tokens = columns_of(reading, "tokens", pass.time, device_);
    return {.hidden = embedding_(tokens, 1, pass.time), .time = pass.time};
  }
  BodyEnd end() const override { return end_; }
  std::int64_t vocabulary() const override { return vocabulary_; }

 private:
  BodyEnd end_;
  std::int64_t vocabulary_;
  Device device_;
  TokenEmbedding embedding_;
};

inline BodyFactory embedding_body(const BodyEnd& end) {
  return [end](const Scope& scope, const ModelSetting& setting) {
    return std::make_unique<EmbeddingBody>(scope, end, setting);
  };
}

}  // namespace longspan::testing
