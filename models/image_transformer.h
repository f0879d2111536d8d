// The Image Transformer (Parmar et al. 2018): autoregressive prediction of pixel values with local
// attention in one or two dimensions.
#pragma once

#include "framework/modeling/family.h"
#include "models/model_options.h"
#include "models/pixel_positions.h"
#include "models/source_image.h"

namespace longspan {

// Prediction of a position: one channel value, or all channels of a pixel under a mixture of
// logistics (Salimans et al. 2017).
enum class PixelValues : std::uint8_t { categories, mixtures };

struct ImageTransformerOptions {
  ModelOptions common = {.tied_embeddings = false};
  PixelPositions positions = PixelPositions::sinusoidal;
  PixelValues values = PixelValues::categories;
  std::int64_t mixtures = 10;
  bool shift_each_block = false;  // see PixelOrder
  bool of_classes = false;        // the class embedding of an image is added at each position
  SourceImageOptions source = {};
};

void declare(OptionTable& table,
             ImageTransformerOptions& options,
             const PlannedBuildOptions& planned);
// Requires ModelBuildOptions::image.
BackboneFactory image_transformer_body(const ImageTransformerOptions& options);
Family image_transformer_family();

}  // namespace longspan
