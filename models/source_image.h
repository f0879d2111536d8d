// Encoder of a small image, from which an Image Transformer predicts the large one:
// super-resolution (Parmar et al. 2018, section 5.3).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/pixel_positions.h"
#include "models/stack.h"

namespace longspan {

struct SourceImageOptions {
  std::optional<std::int64_t> side = {};    // rows and columns of the source; none: no source
  std::optional<std::int64_t> layers = {};  // of the encoder; default: as many as the decoder
};

// Declares the keys model.source_size and model.num_encoder_layers.
void declare(OptionTable& table, SourceImageOptions& options);
// Returns why the options are unsupported; empty if they are supported. `image`: the shape of the
// images, if known.
std::string validate_source(const SourceImageOptions& options,
                            const ModelOptions& common,
                            const MemoryOptions& memory,
                            const std::optional<ImageShape>& image);

// Reads the values of the source one by one, with full attention. Value type.
class SourceImageEncoder {
 public:
  // Creates the weights in "encoder". `common`: options of the decoder.
  SourceImageEncoder(const Scope& scope,
                     const SourceImageOptions& options,
                     const ModelOptions& common,
                     PixelPositions positions,
                     const ModelBuildOptions& setting);

  // Returns the shape of the source.
  const ImageShape& shape() const { return sequence_.shape(); }
  // Returns the output that the decoder attends to. While decoding continues, its keys are cached
  // already. Reads the field `source` [rows, values], or without it the average of each area of
  // `pixels`.
  std::vector<EncoderOutput> operator()(const ModelInput& reading,
                                        const ForwardContext& pass) const;

 private:
  // Returns the ids value + 256 * channel of the sources, [rows, values] on the host.
  Tensor ids_of(const ModelInput& reading) const;

  ImageShape image_;
  PixelSequence sequence_;
  double dropout_;
  double scale_;
  ModelBuildOptions setting_;
  TokenEmbedding embedding_;
  PixelPlaces places_;
  Stack stack_;
};

}  // namespace longspan
