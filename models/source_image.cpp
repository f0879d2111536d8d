#include "models/source_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/modeling/sequence_parallel.h"
#include "models/attention_ops.h"

namespace longspan {
namespace {

constexpr FamilyTraits source_traits = {.causal = false, .sequences = Sequences::examples};

ModelOptions encoder_options(const SourceImageOptions& options, const ModelOptions& common) {
  ModelOptions encoder = common;
  encoder.layers = options.layers.value_or(common.layers);
  encoder.attention = {};
  return encoder;
}

PixelSequence source_sequence(const SourceImageOptions& options, const ImageShape& image) {
  return PixelSequence({*options.side, *options.side, image.channels}, {});
}

}  // namespace

void declare(OptionTable& table, SourceImageOptions& options) {
  table.add("model.source_size",
            options.side,
            "rows and columns of a source image, the average of areas of each image, from which an "
            "encoder-decoder predicts the image (super-resolution); none: no source",
            between(1, 1 << 12),
            affects_weights());
  table.add("model.num_encoder_layers",
            options.layers,
            "number of layers of the source's encoder, with full attention; none: "
            "model.num_hidden_layers, the number of decoder layers",
            between(1, 1 << 16),
            affects_weights(),
            only_with(is_set("model.source_size")));
}

std::string validate_source(const SourceImageOptions& options,
                            const ModelOptions& common,
                            const MemoryOptions& memory,
                            const std::optional<ImageShape>& image) {
  if (!options.side) return "";
  if (image && *options.side > std::min(image->height, image->width))
    return fmt::format("model.source_size: expected at most {} (images of {}), found {}",
                       std::min(image->height, image->width),
                       to_string(*image),
                       *options.side);
  if (common.use_parallel_residual)
    return "model.use_parallel_residual cannot be combined with model.source_size, whose decoder "
           "has cross-attention; set it to false";
  const std::int64_t layers = options.layers.value_or(common.layers);
  if (memory.recomputation().num_layers > layers)
    return fmt::format(
        "memory.recompute_num_layers: expected at most model.num_encoder_layers = {}, found {}",
        layers,
        memory.recompute_num_layers);
  return "";
}

SourceImageEncoder::SourceImageEncoder(const Scope& scope,
                                       const SourceImageOptions& options,
                                       const ModelOptions& common,
                                       PixelPositions positions,
                                       const ModelBuildOptions& setting)
    : image_(*setting.image),
      sequence_(source_sequence(options, image_)),
      dropout_(common.dropout),
      scale_(std::sqrt(static_cast<double>(common.width))),
      setting_(setting),
      embedding_(scope.child("encoder/embedding"),
                 pixel_levels * image_.channels,
                 common.width,
                 common.table_initial()),
      places_(scope.child("encoder/positions"), sequence_, positions, common, setting),
      stack_(scope.child("encoder"),
             {.common = encoder_options(options, common), .memory = setting.memory},
             attention_ops(scope.child("encoder"),
                           encoder_options(options, common),
                           {},
                           source_traits,
                           sequence_.positions())) {}

Tensor SourceImageEncoder::ids_of(const ModelInput& reading) const {
  const auto given = reading.fields.find("source");
  const bool is_given = given != reading.fields.end();
  const Tensor& from = is_given ? given->second : field_of(reading.fields, "pixels");
  const std::int64_t rows = from.shape()[0], columns = from.shape()[1];
  const std::int64_t values = shape().values(), channels = shape().channels;
  require(columns >= (is_given ? values : image_.values()),
          "expected images of {} values, found {}",
          is_given ? values : image_.values(),
          columns);
  const Tensor ids = Tensor::empty({rows, values}, DType::i64, from.device(), MemoryTag::workspace);
  dispatch_on_host(from.device(), [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t* const of_row = from.data<std::int64_t>() + row * columns;
      std::int64_t* const to = ids.data<std::int64_t>() + row * values;
      if (is_given)
        std::copy_n(of_row, values, to);
      else
        average_areas(image_,
                      {of_row, static_cast<std::size_t>(image_.values())},
                      shape(),
                      {to, static_cast<std::size_t>(values)});
      for (std::int64_t i = 0; i < values; ++i) to[i] += pixel_levels * (i % channels);
    }
  });
  return ids;
}

std::vector<EncoderOutput> SourceImageEncoder::operator()(const ModelInput& reading,
                                                          const ForwardContext& pass) const {
  if (pass.kv_cache && pass.kv_cache->positions() > 0) return std::vector<EncoderOutput>(1);
  const std::int64_t time = sequence_.positions();
  const EncoderOutput side = {.time = pass.kv_cache ? replicate_sequence(time)
                                                    : shard_sequence(setting_.mesh, time)};
  ForwardContext reads = pass.child("encoder");
  reads.time = side.time;
  reads.kv_cache = nullptr;
  Variable x =
      embedding_(columns_of(ids_of(reading), side.time, setting_.device), scale_, side.time);
  x = drop(scale_and_add_positions(x, 1, places_.of(side.time.outside())),
           dropout_,
           reads.child("embedding"));
  return stack_.encode(x, side, CrossAttentionMapping::last, reads);
}

}  // namespace longspan
