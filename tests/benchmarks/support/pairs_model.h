// The network of configs/translation.yaml, for benchmarks.
#pragma once

#include <memory>

#include "framework/modeling/model.h"

namespace longspan::bench {

constexpr std::int64_t pairs_vocabulary = 4000;

// Encoder-decoder in f32: 3 + 3 layers, width 256, 4 heads, feed-forward 1024, dropout 0.1, label
// smoothing 0.1, sequences of at most `longest` tokens.
std::unique_ptr<Model> pairs_model(const ProcessMesh& mesh,
                                   std::int64_t vocabulary,
                                   std::int64_t longest);

}  // namespace longspan::bench
