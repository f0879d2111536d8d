#include "tests/benchmarks/support/pairs_model.h"

#include "framework/modeling/lm_head.h"
#include "models/encoder_decoder.h"

namespace longspan::bench {

std::unique_ptr<Model> pairs_model(const ProcessMesh& mesh,
                                   std::int64_t vocabulary,
                                   std::int64_t longest) {
  EncoderDecoderOptions options;
  options.common.layers = 3;
  options.common.width = 256;
  options.common.heads = 4;
  options.common.feed_forward = 1024;
  options.common.dropout = 0.1;
  const ModelBuildOptions setting = {.vocabulary = vocabulary,
                                     .segment = longest,
                                     .compute = DType::f32,
                                     .device = Device::cpu(),
                                     .mesh = mesh,
                                     .smoothing = {.share = 0.1}};
  return std::make_unique<Model>(setting, encoder_decoder_body(options), lm_head());
}

}  // namespace longspan::bench
