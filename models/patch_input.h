// What the first layer of an encoder reads of an image: patches, and a token that stands for all of
// it (Dosovitskiy et al. 2021).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/data/examples/image_shape.h"
#include "models/positions.h"

namespace longspan {

struct PatchOptions {
  std::optional<std::int64_t> side = {};  // of a square of pixels; none: each value is a token
  // Of values between 0 and 1, of each channel or of all; they are taken from a value, which then
  // is divided by the second.
  std::vector<double> mean = {0.5};
  std::vector<double> deviation = {0.5};

  // With the token.
  std::int64_t positions(const ImageShape& image) const;
};

// What keeps such images from being cut so, as a sentence; empty where nothing does.
std::string patches_problem(const PatchOptions& options, const std::optional<ImageShape>& image);

// The keys model.patch_size, model.image_mean and model.image_std.
void declare(OptionTable& table, PatchOptions& options);

// A value.
class PatchInput {
 public:
  // Makes "patches/weight" [width, channels * side * side], whose columns are the values of one
  // channel after another, row by row, "patches/bias" and "class_token/weight" [1, width], and
  // "positions/weight" [positions, width].
  PatchInput(const Scope& scope,
             const PatchOptions& options,
             const PositionOptions& positions,
             const ModelOptions& common,
             const ModelBuildOptions& setting);

  // pixels: [rows, values] i64 for the host, as open_images has them; what is behind an image's
  // values is not read. Result: [rows, positions, width] of the positions that `pass` gives this
  // rank: the token first, then patches row by row; dropped.
  Variable operator()(const Tensor& pixels, const ForwardContext& pass) const;
  std::int64_t positions() const { return count_; }

 private:
  // [rows, n, channels * side * side]; zeros of the token.
  Tensor patches(const Tensor& pixels, const Ranges& positions) const;

  ImageShape image_;
  PatchOptions options_;
  std::int64_t count_;
  double dropout_;
  DType compute_;
  Device device_;
  Weight weight_;
  Weight bias_;
  Weight token_;
  Weight positions_;
};

}  // namespace longspan
