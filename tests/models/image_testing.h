// Small images for the tests of models that predict pixels.
#pragma once

#include <algorithm>
#include <memory>

#include "framework/modeling/heads.h"
#include "models/image_transformer.h"
#include "tests/models/model_testing.h"

namespace longspan::testing {

// Pixel values [rows, time], padded with 0.
inline Tensor random_pixels(std::int64_t rows,
                            const ImageShape& shape,
                            std::int64_t time,
                            std::uint64_t seed) {
  const Tensor pixels = Tensor::zeros({rows, time}, DType::i64, backend_device());
  const Random random(seed);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < shape.values(); ++i)
      pixels.data<std::int64_t>()[row * time + i] = static_cast<std::int64_t>(
          random.word(static_cast<std::uint64_t>(row * time + i)) % pixel_levels);
  return pixels;
}

// Image fields with classes 0, 1, 2, 0, ...; row `empty` has no image.
inline Fields image_fields(const Tensor& pixels, std::int64_t values, std::int64_t empty = -1) {
  const std::int64_t rows = pixels.shape()[0];
  const Tensor length = Tensor::empty({rows}, DType::i64, backend_device());
  const Tensor label = Tensor::empty({rows}, DType::i64, backend_device());
  for (std::int64_t row = 0; row < rows; ++row) {
    length.data<std::int64_t>()[row] = row == empty ? 0 : values;
    label.data<std::int64_t>()[row] = row == empty ? ignored_target : row % 3;
  }
  return {{"pixels", pixels}, {"length", length}, {"label", label}};
}

inline std::unique_ptr<Model> make_image_transformer(const ImageTransformerOptions& options,
                                                     const ModelBuildOptions& setting) {
  return std::make_unique<Model>(setting, image_transformer_body(options), pixel_head());
}

}  // namespace longspan::testing
