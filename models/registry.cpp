#include "models/registry.h"

#include <array>

#include "models/decoder.h"
#include "models/encoder.h"
#include "models/encoder_decoder.h"
#include "models/image_transformer.h"
#include "models/transformer_xl.h"
#include "models/universal_transformer.h"

namespace longspan {

std::span<const Family> families() {
  static const std::array all = {transformer_xl_family(),
                                 decoder_family(),
                                 universal_transformer_family(),
                                 encoder_decoder_family(),
                                 encoder_family(),
                                 image_transformer_family()};
  return all;
}

}  // namespace longspan
