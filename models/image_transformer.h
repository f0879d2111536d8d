// The Image Transformer (Parmar et al. 2018): the values of an image predicted one after another,
// by local attention in one or two dimensions.
#pragma once

#include "framework/modeling/family.h"
#include "models/model_options.h"

namespace longspan {

// How the row and the column of a value are told.
enum class PixelPositions : std::uint8_t { sinusoidal, learned };

// What a position predicts: the value of one channel, or a pixel's channels together under a
// mixture of logistics (Salimans et al. 2017).
enum class PixelValues : std::uint8_t { categories, mixtures };

struct ImageTransformerOptions {
  ModelOptions common = {.tied_embeddings = false};
  PixelPositions positions = PixelPositions::sinusoidal;
  PixelValues values = PixelValues::categories;
  std::int64_t mixtures = 10;
  bool shift_each_block = false;  // see PixelOrder
  bool of_classes = false;        // the class of an image is told at each position
};

void declare(OptionTable& table,
             ImageTransformerOptions& options,
             const PlannedBuildOptions& planned);
// Needs ModelBuildOptions::image.
BackboneFactory image_transformer_body(const ImageTransformerOptions& options);
Family image_transformer_family();

}  // namespace longspan
