#include "framework/nn/attention/image_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/options/options.h"

namespace longspan {
namespace {

std::string problem(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  if (!setting.image)
    return "model.attention.layer_types: local_2d requires model.family: image_transformer";
  for (const auto& [key, pair] : {std::pair("query_shape", &options.image.block),
                                  std::pair("memory_flange", &options.image.flange)})
    if (pair->size() != 2)
      return fmt::format(
          "model.attention.local_2d.{}: expected 2 elements (rows and columns), found {}",
          key,
          pair->size());
  if (options.image.block[0] < 1 || options.image.block[1] < 1)
    return fmt::format(
        "model.attention.local_2d.query_shape: expected at least 1 row and 1 column, found [{}]",
        fmt::join(options.image.block, ", "));
  return "";
}

// The max distance is that of a pixel at the end of its row of blocks. Its farther end is the first
// pixel of the topmost row of blocks that overlaps the flange.
std::int64_t farthest(const masks::Image& image) {
  const std::int64_t rows_above =
      (image.flange_height + image.query_height - 1) / image.query_height;
  return image.query_height * image.width * (1 + rows_above) - 1;
}

std::unique_ptr<AttentionOp> make(const Scope&,
                                  const AttentionOptions& options,
                                  const AttentionBuildOptions& setting) {
  throw_if_error(problem(options, setting));
  const masks::Image image = {
      .height = setting.image->height,
      .width = setting.image->width,
      .query_height = options.image.block[0],
      .query_width = options.image.block[1],
      // Larger sizes are equivalent to the full image.
      .flange_height = std::min(options.image.flange[0], setting.image->height),
      .flange_width = std::min(options.image.flange[1], setting.image->width),
      .causal = true};
  const Mask seen = masks::image(image, masks::ImageOrder::generation);
  const auto table = [seen, heads = setting.heads](std::int64_t) {
    return std::vector<HeadMaskParts>(static_cast<std::size_t>(heads),
                                      HeadMaskParts{.rules = seen, .near = seen});
  };
  return std::make_unique<SoftmaxAttention>(setting.dropout,
                                            AttentionPattern(table, 1, false, farthest(image)));
}

}  // namespace

void declare(OptionTable& table, ImageBlockOptions& options) {
  table.add("model.attention.local_2d.query_shape",
            options.block,
            "rows and columns of an image block, with the channels of a pixel as separate columns; "
            "images are predicted block by block, each row by row",
            between(1, 1 << 20),
            affects_weights(),
            only_with(layer_type({"local_2d"})));
  table.add("model.attention.local_2d.memory_flange",
            options.flange,
            "rows above a block and columns on either side of it that its queries attend to, where "
            "already predicted",
            between(0, 1 << 20),
            only_with(layer_type({"local_2d"})));
}

AttentionKind local_2d_kind() {
  return {.name = "local_2d",
          .sees = "the query's image block and a flange above it and at its sides, in block order",
          .alone = "it reorders the whole sequence",
          .supports_kv_cache = true,
          .turns = true,
          .own_weights = true,  // trained for the block order
          .problem = problem,
          .make = make};
}

}  // namespace longspan
