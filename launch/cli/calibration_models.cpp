#include "launch/cli/calibration_models.h"

#include "models/decoder.h"
#include "models/transformer_xl.h"

namespace longspan {
namespace {

BackboneFactory decoder(std::int64_t layers, std::int64_t width) {
  DecoderOptions options;
  options.common.layers = layers;
  options.common.width = width;
  return decoder_body(options);
}

BackboneFactory transformer_xl() {
  TransformerXlOptions options;
  options.common.layers = 3;
  options.common.width = 128;
  options.common.heads = 4;
  options.common.dropout = 0.1;
  options.memory = 128;
  return transformer_xl_body(options);
}

}  // namespace

CalibrationModels calibration_models() {
  return {.measured = {4, 256, decoder(4, 256)},
          .trials = {{4, 128, transformer_xl()}, {2, 128, decoder(2, 512)}}};
}

}  // namespace longspan
