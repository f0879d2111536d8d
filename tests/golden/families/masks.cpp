// Sets of allowed pairs (Sparse Transformer, Image Transformer, Longformer, BigBird) and relative
// attention (Shaw, BERT).
#include <gtest/gtest.h>

#include "framework/autograd/ops.h"
#include "framework/kernels/attention/tile_plan.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

// Compares the bits of the tile engine, [n, n], with a page of an integer dataset.
void expect_page(const GoldenFile& file,
                 const std::string& name,
                 const Mask& mask,
                 std::int64_t page) {
  const Tensor& expected = file.ids("outputs/" + name);
  const std::int64_t n = expected.shape()[-1];
  // A single page applies to all heads.
  const std::int64_t pages = expected.elements() / (n * n);
  page = std::min(page, pages - 1);
  const TilePlan plan(mask, {.time = n, .keys = n});
  std::uint64_t bits[64];
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      if (j % 64 == 0) plan.tile_bits(i, 1, j, std::min<std::int64_t>(64, n - j), bits);
      const auto found = static_cast<std::int64_t>(bits[0] >> j % 64 & 1);
      ASSERT_EQ(found, expected.data<std::int64_t>()[(page * n + i) * n + j])
          << file.name() << " " << name << " " << page << ": query " << i << " key " << j;
      pairs += found;
    }
  EXPECT_EQ(plan.pairs(), pairs) << file.name() << " " << name;
}

void expect_mask(const GoldenFile& file, const std::string& name, const Mask& mask) {
  expect_page(file, name, mask, 0);
}

void check_sparse_transformer(const GoldenFile& file) {
  const std::int64_t length = file.integer("local_attn_ctx");
  const std::int64_t heads = file.integer("heads");
  const std::int64_t block = file.integer("blocksize");
  const std::int64_t width = file.integer("vertsize") * block;
  const std::int64_t variants = file.integer("num_verts");
  const Mask local = masks::causal() & masks::window(length - 1, 0);
  const Mask strided = masks::causal() & masks::stride(length);
  expect_extent(file, "n", file.ids("outputs/all").shape()[0]);
  expect_mask(file, "all", masks::causal());
  expect_mask(file, "local", local);
  expect_mask(file, "strided", strided);
  expect_mask(file, "strided_union", local | strided);
  // Heads alternate between summary columns, from the right end of the block.
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t first = length - (h % variants + 1) * width;
    expect_page(file,
                "fixed",
                masks::causal() & (masks::block(length) | masks::columns(length, first, width)),
                h);
  }
}

void check_image_transformer(const GoldenFile& file) {
  const std::int64_t length = file.integer("block_length");
  const std::int64_t filter = file.integer("filter_width");
  const std::int64_t n = file.integer("n");
  const Mask causal = masks::causal();
  expect_mask(
      file, "masked_local_1d", n < 2 * length ? causal : causal & masks::block(length, length));
  // If the block divides the margin, the reference code attends one block further left.
  const std::int64_t shift = filter % length == 0 ? length : 0;
  expect_mask(file, "local_1d_as_coded", masks::block(length, filter + shift, filter - shift));
  masks::Image image{.height = file.integer("height"),
                     .width = file.integer("width"),
                     .query_height = file.integer("query_h"),
                     .query_width = file.integer("query_w"),
                     .flange_height = file.integer("flange_h"),
                     .flange_width = file.integer("flange_w"),
                     .causal = true};
  expect_mask(file, "masked_local_2d", masks::image(image, masks::ImageOrder::raster));
  image.causal = false;
  image.flange_height = image.flange_width;
  expect_mask(file, "local_2d", masks::image(image, masks::ImageOrder::raster));
}

void check_longformer(const GoldenFile& file) {
  const std::int64_t window = file.integer("window");
  const std::int64_t dilation = file.integer("dilation");
  const Tensor& flags = file.ids("inputs/global_token");
  expect_extent(file, "n", flags.elements());
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < flags.elements(); ++i)
    if (flags.data<std::int64_t>()[i] != 0) positions.push_back(i);
  expect_extent(file, "n_global", static_cast<std::int64_t>(positions.size()));
  const Mask sliding = masks::window(window, window);
  const Mask dilated =
      masks::window(window * dilation, window * dilation) & masks::stride(dilation);
  expect_mask(file, "sliding", sliding);
  expect_mask(file, "sliding_global", sliding | masks::global(positions));
  expect_mask(file, "dilated", dilated);
  expect_mask(file, "dilated_causal", dilated & masks::causal());
  expect_mask(file, "dilated_global", dilated | masks::global(positions));
}

void check_bigbird(const GoldenFile& file) {
  const std::int64_t length = file.integer("block");
  const std::int64_t blocks = file.integer("n") / length;
  const std::int64_t count = file.integer("num_rand");
  const Tensor& random = file.ids("inputs/rand_attn");
  for (std::int64_t h = 0; h < file.integer("heads"); ++h) {
    std::vector<std::vector<std::int64_t>> lists;
    for (std::int64_t u = 0; u < blocks; ++u) {
      std::vector<std::int64_t> list;
      if (u == 0 || u == blocks - 1) {
        for (std::int64_t k = 0; k < blocks; ++k) list.push_back(k);
      } else {
        list = {0, u - 1, u, u + 1, blocks - 1};
        for (std::int64_t r = 0; r < count; ++r)
          list.push_back(random.data<std::int64_t>()[(h * (blocks - 2) + u - 1) * count + r]);
      }
      lists.push_back(std::move(list));
    }
    expect_page(file, "mask", masks::block_map(length, lists), h);
  }
}

// [batch, head, time, width] to [batch, time, head, width] and back.
Tensor exchanged_middle_axes(const Tensor& tensor) {
  const Shape& s = tensor.shape();
  const Tensor result = Tensor::empty({s[0], s[2], s[1], s[3]}, tensor.dtype(), tensor.device());
  for (std::int64_t b = 0; b < s[0]; ++b)
    for (std::int64_t i = 0; i < s[1]; ++i)
      for (std::int64_t j = 0; j < s[2]; ++j)
        std::copy_n(tensor.data<double>() + ((b * s[1] + i) * s[2] + j) * s[3],
                    s[3],
                    result.data<double>() + ((b * s[2] + j) * s[1] + i) * s[3]);
  return result;
}

}  // namespace

void check_masks(const GoldenFile& file) {
  const std::string kind = file.name().substr(std::string("masks-").size());
  if (kind == "sparse_transformer") return check_sparse_transformer(file);
  if (kind == "image_transformer") return check_image_transformer(file);
  if (kind == "longformer") return check_longformer(file);
  if (kind == "bigbird") return check_bigbird(file);
  throw DataError("{}: there is no such mask", file.name());
}

void check_shaw(const GoldenFile& file) {
  const auto leaf = [&](const std::string& name) {
    return Variable::leaf(exchanged_middle_axes(file.numbers("inputs/" + name)));
  };
  const Variable query = leaf("q");
  const Variable key = leaf("k");
  const Variable value = leaf("v");
  const Variable key_table = leaf_of(file, "weights/relative_keys");
  const Variable value_table = leaf_of(file, "weights/relative_values");
  expect_extent(file, "batch", query.shape()[0]);
  expect_extent(file, "len", query.shape()[1]);
  expect_extent(file, "heads", query.shape()[2]);
  expect_extent(file, "d_head", query.shape()[3]);
  expect_extent(file, "max_relative_position", key_table.shape()[0] / 2);
  const AttentionMask mask = {.rules = file.flag("causal") ? masks::causal() : Mask()};
  const auto run = [&](const Variable& values, const Variable& table) {
    return attention(
        query, key, values, mask, {.shaw = ShawVariables{key_table, table}, .scale = 1});
  };
  const Variable y = run(value, value_table);
  expect_output(file, "y", exchanged_middle_axes(y.value()));
  // Attention over unit-vector values gives the probabilities.
  const std::int64_t keys = key.shape()[1];
  const Tensor unit =
      Tensor::zeros(key.shape().with(-1, keys), DType::f64, testing::backend_device());
  for (std::int64_t row = 0; row < unit.elements() / keys; ++row)
    unit.data<double>()[row * keys + row / key.shape()[2] % keys] = 1;
  expect_output(file, "attention", exchanged_middle_axes(run(Variable(unit), Variable()).value()));
  backward({y}, {exchanged_middle_axes(file.numbers("inputs/upstream"))});
  expect_gradient(file, "q", exchanged_middle_axes(gradient_of(query)));
  expect_gradient(file, "k", exchanged_middle_axes(gradient_of(key)));
  expect_gradient(file, "v", exchanged_middle_axes(gradient_of(value)));
  expect_gradient(file, "relative_keys", gradient_of(key_table));
  expect_gradient(file, "relative_values", gradient_of(value_table));
}

// BERT's relative keys: Shaw's without clipping, in reversed table order; relative_key_query also
// multiplies keys with the table.
void check_relative_key(const GoldenFile& file) {
  const std::string type = file.text("position_embedding_type");
  const bool of_keys = type == "relative_key_query";
  if (!of_keys && type != "relative_key")
    throw DataError("{}: there is no such relative key", file.name());
  const Variable x = leaf_of(file, "inputs/x");
  const Tensor& table = file.numbers("weights/distance_embedding_weight");
  const std::int64_t heads = file.integer("heads");
  const Shape by_head = {x.shape()[0], x.shape()[1], heads, table.shape()[1]};
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  expect_extent(file, "d_model", x.shape()[2]);
  expect_extent(file, "max_positions", (table.shape()[0] + 1) / 2);
  const std::vector<std::string> names = {"query", "key", "value"};
  std::vector<Variable> weights;
  std::vector<Variable> biases;
  std::vector<Variable> projected;
  for (const std::string& name : names) {
    weights.push_back(leaf_of(file, "weights/" + name + "_weight"));
    biases.push_back(leaf_of(file, "weights/" + name + "_bias"));
    projected.push_back(reshape(linear(x, weights.back(), biases.back()), by_head));
  }
  AttentionMask mask = {.rules = masks::everything()};
  if (file.flag("padding")) mask.key_padding = padding_of(file);
  const Variable distances = Variable::leaf(reversed(table));
  const Variable y = attention(projected[0],
                               projected[1],
                               projected[2],
                               mask,
                               {.shaw = ShawVariables{distances, Variable(), of_keys}});
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone().reshape(y.shape())});
  expect_gradient(file, "x", gradient_of(x));
  for (std::size_t i = 0; i < names.size(); ++i) {
    expect_gradient(file, names[i] + "_weight", gradient_of(weights[i]));
    expect_gradient(file, names[i] + "_bias", gradient_of(biases[i]));
  }
  expect_gradient(file, "distance_embedding_weight", reversed(gradient_of(distances)));
}

}  // namespace longspan::golden
