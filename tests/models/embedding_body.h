// Minimal backbone: hidden states are the token embeddings.
#pragma once

#include "framework/modeling/backbone.h"
#include "framework/nn/embedding.h"

namespace longspan::testing {

class EmbeddingBody : public Backbone {
 public:
  EmbeddingBody(const Scope& scope, const OutputHeadSpec& end, const ModelBuildOptions& setting)
      : end_(end),
        vocabulary_(setting.vocabulary),
        device_(setting.device),
        embedding_(scope.child("embedding"), vocabulary_, end.width, end.initial) {}

  BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const override {
    const Tensor tokens = columns_of(reading, "tokens", pass.time, device_);
    return {.hidden = embedding_(tokens, 1, pass.time), .time = pass.time};
  }
  OutputHeadSpec end() const override { return end_; }
  std::int64_t vocabulary() const override { return vocabulary_; }

 private:
  OutputHeadSpec end_;
  std::int64_t vocabulary_;
  Device device_;
  TokenEmbedding embedding_;
};

inline BackboneFactory embedding_body(const OutputHeadSpec& end) {
  return [end](const Scope& scope, const ModelBuildOptions& setting) {
    return std::make_unique<EmbeddingBody>(scope, end, setting);
  };
}

}  // namespace longspan::testing
