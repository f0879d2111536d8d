// Patch embedding of images with a class token (Dosovitskiy et al. 2021).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/data/examples/images.h"
#include "models/positions.h"

namespace longspan {

struct PatchOptions {
  std::optional<std::int64_t> side = {};  // patch size in pixels; none: each value is a token
  // Mean and standard deviation of values between 0 and 1, per channel or for all channels.
  std::vector<double> mean = {0.5};
  std::vector<double> deviation = {0.5};

  // Number of positions, with the class token.
  std::int64_t positions(const ImageShape& image) const;
};

// Returns why images of this shape cannot be split into patches; empty if they can.
std::string validate_patches(const PatchOptions& options, const std::optional<ImageShape>& image);

// Declares the keys model.patch_size, model.image_mean and model.image_std.
void declare(OptionTable& table, PatchOptions& options);

// Value type.
class PatchInput {
 public:
  // Creates "patches/weight" [width, channels * side * side], with columns channel by channel in
  // raster order, "patches/bias", "class_token/weight" [1, width] and "positions/weight"
  // [positions, width].
  PatchInput(const Scope& scope,
             const PatchOptions& options,
             const PositionOptions& positions,
             const ModelOptions& common,
             const ModelBuildOptions& setting);

  // Returns [rows, positions, width] after dropout for this rank's positions of `pass`: the class
  // token, then patches in raster order. pixels: [rows, values] i64 on the host, as from
  // open_images; padding after an image's values is ignored.
  Variable operator()(const Tensor& pixels, const ForwardContext& pass) const;
  std::int64_t positions() const { return count_; }

 private:
  // [rows, n, channels * side * side]; zeros for the class token.
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
