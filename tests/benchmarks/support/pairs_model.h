// The network of configs/translation.yaml, for benchmarks.
#pragma once

#include <memory>

#include "framework/modeling/model.h"

namespace longspan::bench {

constexpr std::int64_t pairs_vocabulary = 4000;

// An encoder-decoder of 3 and 3 layers of width 256, 4 heads, feed-forward layers of 1024, dropout
// 0.1 and label smoothing 0.1, in f32; sequences of at most `longest` tokens.
std::unique_ptr<Model> pairs_model(const ProcessMesh& mesh,
                                   std::int64_t vocabulary,
                                   std::int64_t longest);

}  // namespace longspan::bench
