#include "models/patch_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/modeling/sequence_parallel.h"
#include "framework/nn/positions.h"
#include "models/stack.h"

namespace longspan {
namespace {

// Ids [rows, n] for a table with one row: 0 where the row applies, else -1.
Tensor ids_where(std::int64_t rows, const Ranges& positions, bool of_token, const Device& device) {
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < rows; ++row)
    for (const Range& range : positions)
      for (std::int64_t place = range.begin; place < range.end; ++place)
        ids.push_back((place == 0) == of_token ? 0 : -1);
  return host_field(ids, {rows, total_count(positions)}, device);
}

template <typename T>
void fill_patch(const ImageShape& image,
                const PatchOptions& options,
                const std::int64_t* pixels,
                std::int64_t patch,
                T* to) {
  const std::int64_t side = *options.side;
  const std::int64_t across = image.width / side;
  const std::int64_t top = patch / across * side, left = patch % across * side;
  const auto of = [](const std::vector<double>& each, std::int64_t channel) {
    return each[each.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
  };
  for (std::int64_t channel = 0; channel < image.channels; ++channel)
    for (std::int64_t y = top; y < top + side; ++y)
      for (std::int64_t x = left; x < left + side; ++x) {
        const std::int64_t value = pixels[(y * image.width + x) * image.channels + channel];
        *to++ = static_cast<T>((static_cast<double>(value) / 255 - of(options.mean, channel)) /
                               of(options.deviation, channel));
      }
}

}  // namespace

std::int64_t PatchOptions::positions(const ImageShape& image) const {
  return 1 + (image.height / *side) * (image.width / *side);
}

std::string validate_patches(const PatchOptions& options, const std::optional<ImageShape>& image) {
  if (!image) return "model.patch_size requires data.format: images; omit it for text";
  if (image->height % *options.side != 0 || image->width % *options.side != 0)
    return fmt::format(
        "model.patch_size: expected a divisor of the height and width of images of {}, found {}",
        to_string(*image),
        *options.side);
  for (const auto& [key, values] :
       {std::pair("model.image_mean", &options.mean), {"model.image_std", &options.deviation}})
    if (values->size() != 1 && std::ssize(*values) != image->channels)
      return fmt::format("{}: expected 1 element or one per channel of images of {}, found {}",
                         key,
                         to_string(*image),
                         values->size());
  return "";
}

void declare(OptionTable& table, PatchOptions& options) {
  table.add("model.patch_size",
            options.side,
            "side of a patch in pixels; patches are embedded by a linear layer and follow a "
            "learned token (Dosovitskiy et al. 2021); none: each pixel value is a token",
            between(1, 1 << 12),
            affects_weights(),
            needs(is("data.format", {"images"})));
  table.add("model.image_mean",
            options.mean,
            "mean subtracted from pixel values in 0 to 1; one value, or one per channel",
            affects_weights(),
            only_with(is_set("model.patch_size")));
  table.add("model.image_std",
            options.deviation,
            "standard deviation that pixel values are divided by; one value, or one per channel",
            more_than(0.0),
            affects_weights(),
            only_with(is_set("model.patch_size")));
}

PatchInput::PatchInput(const Scope& scope,
                       const PatchOptions& options,
                       const PositionOptions& positions,
                       const ModelOptions& common,
                       const ModelBuildOptions& setting)
    : options_(options),
      dropout_(common.dropout),
      compute_(setting.compute),
      device_(setting.device) {
  throw_if_error(validate_patches(options, setting.image));
  image_ = *setting.image;
  count_ = options.positions(image_);
  if (!positions.learned())
    throw ConfigurationError("model.patch_size requires model.position_embedding_type: learned");
  if (positions.longest.value_or(count_) != count_)
    throw ConfigurationError(
        "model.max_position_embeddings: expected {} for images of {} in "
        "patches of {} and a class token, found {}",
        count_,
        to_string(image_),
        *options.side,
        *positions.longest);
  const std::int64_t values = image_.channels * *options.side * *options.side;
  const Scope patches = scope.child("patches");
  weight_ = patches.weight("weight",
                           {common.width, values},
                           common.initial().value_or(Initializer::xavier(values, common.width)));
  bias_ = patches.no_decay_weight("bias", {1, common.width}, Initializer::constant(0));
  token_ = scope.child("class_token")
               .no_decay_weight("weight", {1, common.width}, common.table_initial());
  positions_ = scope.weight("positions/weight", {count_, common.width}, common.table_initial());
}

Tensor PatchInput::patches(const Tensor& pixels, const Ranges& positions) const {
  const std::int64_t rows = pixels.shape()[0], columns = pixels.shape()[1];
  const std::int64_t count = total_count(positions), width = weight_->global_shape[1];
  const DType dtype = compute_ == DType::f64 ? DType::f64 : DType::f32;
  const Tensor host =
      Tensor::zeros({rows, count, width}, dtype, pixels.device(), MemoryTag::workspace);
  if (pixels.device().state().is_meta()) return copy_async(host, device_);
  const auto fill = [&](auto* const to) {
    std::int64_t place = 0;
    for (const Range& range : positions)
      for (std::int64_t position = range.begin; position < range.end; ++position, ++place)
        for (std::int64_t row = 0; position > 0 && row < rows; ++row)
          fill_patch(image_,
                     options_,
                     pixels.data<std::int64_t>() + row * columns,
                     position - 1,
                     to + (row * count + place) * width);
  };
  if (dtype == DType::f64)
    fill(host.data<double>());
  else
    fill(host.data<float>());
  return copy_async(host, device_);
}

Variable PatchInput::operator()(const Tensor& pixels, const ForwardContext& pass) const {
  const Ranges positions = pass.time.outside();
  const std::int64_t rows = pixels.shape()[0];
  const auto where = [&](const Weight& one, bool of_token) {
    return embedding(one->variable, ids_where(rows, positions, of_token, device_), 0, 1);
  };
  Variable x = linear(cast(Variable(patches(pixels, positions)), compute_), weight_->variable, {});
  for (const auto& [one, of_token] : {std::pair(&bias_, false), {&token_, true}})
    x = add(x, cast(where(*one, of_token), compute_));
  x = scale_and_add_positions(x, 1, table_rows(positions_->variable, positions));
  return drop(x, dropout_, pass.child("embedding"));
}

}  // namespace longspan
