// The Image Transformer on one process.
#include "models/image_transformer.h"

#include <numbers>

#include "framework/nn/attention/kv_cache.h"
#include "tests/models/image_testing.h"

namespace longspan::image_transformer_test {
namespace {

using testing::expect_close;
using testing::image_fields;
using testing::losses_of;
using testing::make_image_transformer;
using testing::random_pixels;
using testing::Values;
using testing::values_of;

constexpr ImageShape color = {3, 2, 3};  // 18 values
constexpr ImageShape gray = {5, 7, 1};   // blocks of 2 x 3 do not divide it

ImageTransformerOptions tiny(const std::string& attention = "local_1d") {
  ImageTransformerOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.activation = FeedForwardActivation::gelu_tanh;
  options.common.tied_embeddings = false;
  options.common.attention.kinds = {attention};
  options.common.attention.local_1d = {.filter_width = 2, .block_length = 4};
  options.common.attention.image = {.block = {2, 3}, .flange = {1, 2}};
  return options;
}

std::unique_ptr<Model> make(const ImageTransformerOptions& options, const ImageShape& image) {
  ModelBuildOptions setting = testing::tiny_setting(image.values());
  setting.classes = 3;
  setting.image = image;
  return make_image_transformer(options, setting);
}

ModelInput reading_of(const Tensor& pixels, const ImageShape& image) {
  return {.fields = image_fields(pixels, image.values())};
}

Tensor scores_of(const Model& model, const ModelInput& reading) {
  return model.scores(reading, ForwardContext()).scores.value();
}

TEST(PixelSequence, InputsArePreviousValuesWithChannelOffset) {
  const PixelSequence sequence(color, {});
  const Tensor pixels = random_pixels(2, color, 20, 1);
  const Fields fields = image_fields(pixels, 18, 1);
  const Tensor ids = sequence.read_of(pixels);
  const Tensor targets = sequence.targets_of(pixels, field_of(fields, "length"));
  for (std::int64_t i = 0; i < 20; ++i) {
    const std::int64_t before = i == 0 ? 0 : pixels.data<std::int64_t>()[i - 1];
    const bool is_start = i == 0 || i >= 18;
    EXPECT_EQ(ids.data<std::int64_t>()[i], is_start ? 768 : before + 256 * ((i - 1) % 3));
    EXPECT_EQ(targets.data<std::int64_t>()[i], i < 18 ? pixels.data<std::int64_t>()[i] : -1);
    EXPECT_EQ(targets.data<std::int64_t>()[20 + i], -1);
  }
}

// The mask in generation order equals the mask in raster order.
TEST(PixelSequence, BlockOrderMatchesImageMask) {
  for (const ImageShape& shape : {gray, color, ImageShape{4, 6, 1}}) {
    const PixelSequence sequence(shape, {.block_height = 2, .block_width = 3});
    const masks::Image image = {.height = sequence.rows(),
                                .width = sequence.columns(),
                                .query_height = 2,
                                .query_width = 3,
                                .flange_height = 1,
                                .flange_width = 2};
    const Mask raster = masks::image(image, masks::ImageOrder::raster);
    const Mask generated = masks::image(image, masks::ImageOrder::generation);
    for (std::int64_t p = 0; p < sequence.positions(); ++p)
      for (std::int64_t k = 0; k < sequence.positions(); ++k) {
        const bool allowed = generated.allows(p, k);
        EXPECT_EQ(allowed, raster.allows(sequence.position_of(p), sequence.position_of(k)));
        if (allowed) {
          EXPECT_LE(k, p);
        }
      }
  }
}

TEST(PixelSequence, BlockwiseShiftStartsEachBlockWithStartToken) {
  const PixelOrder whole = {.block_height = 2, .block_width = 3};
  PixelOrder each = whole;
  each.shift_each_block = true;
  const Tensor pixels = random_pixels(1, gray, 35, 1);
  const Tensor one = PixelSequence(gray, whole).read_of(pixels);
  const Tensor other = PixelSequence(gray, each).read_of(pixels);
  // Two rows of blocks 2 x 3, 2 x 3, 2 x 1, then one row of 1 x 3, 1 x 3, 1 x 1.
  const std::vector<std::int64_t> begins = {0, 6, 12, 14, 20, 26, 28, 31, 34};
  for (std::int64_t i = 0; i < 35; ++i)
    EXPECT_EQ(other.data<std::int64_t>()[i],
              std::ranges::count(begins, i) > 0 ? 256 : one.data<std::int64_t>()[i]);
}

// Query block b attends to its own positions and to the filter width before it.
TEST(ImageTransformer, Local1dBlocksAttendToTheirWindow) {
  const AttentionOptions options = {.kinds = {"local_1d"},
                                    .local_1d = {.filter_width = 3, .block_length = 5}};
  const auto patterns = attention_patterns(options, {.segment = 17});
  const Mask seen = patterns.front().rules(17).of(0) & masks::causal();
  for (std::int64_t p = 0; p < 17; ++p)
    for (std::int64_t k = 0; k < 17; ++k)
      EXPECT_EQ(seen.allows(p, k), k <= p && k >= p / 5 * 5 - 3) << p << " " << k;
}

TEST(ImageTransformer, UniformPredictionCostsEightBitsPerValue) {
  for (const ImageShape& image : {gray, color}) {
    const auto model = make(tiny(), image);
    model->parameters().named("output/weight").master.zero();
    const Tensor losses =
        losses_of(*model, reading_of(random_pixels(2, image, image.values(), 1), image)).value();
    for (const double loss : losses.span<double>()) EXPECT_NEAR(loss / std::numbers::ln2, 8, 1e-14);
  }
}

TEST(ImageTransformer, GradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const char* const attention : {"local_1d", "local_2d"})
    for (const PixelPositions positions : {PixelPositions::sinusoidal, PixelPositions::learned}) {
      ImageTransformerOptions options = tiny(attention);
      options.positions = positions;
      options.of_classes = positions == PixelPositions::learned;
      options.common.dropout = options.common.attention_dropout = 0.3;
      const auto model = make(options, color);
      testing::expect_model_gradients(
          *model, reading_of(random_pixels(2, color, 20, 1), color), pass);
    }
}

// In generation order: a changed value changes no score up to its position, and the score after it.
TEST(ImageTransformer, DoesNotAttendToLaterValues) {
  for (const char* const attention : {"full", "local_1d", "local_2d"})
    for (const ImageShape& image : {gray, color}) {
      const auto model = make(tiny(attention), image);
      const PixelSequence sequence = *model->body().end().pixels;
      const Tensor pixels = random_pixels(1, image, image.values(), 1);
      const Tensor before = scores_of(*model, reading_of(pixels, image));
      for (std::int64_t changed = 0; changed + 1 < image.values(); changed += 3) {
        const Tensor other = pixels.clone();
        std::int64_t& value = other.data<std::int64_t>()[sequence.position_of(changed)];
        value = (value + 100) % 256;
        const Tensor after = scores_of(*model, reading_of(other, image));
        for (std::int64_t i = 0; i <= changed + 1; ++i) {
          const bool same = std::equal(before.data<double>() + i * 256,
                                       before.data<double>() + (i + 1) * 256,
                                       after.data<double>() + i * 256);
          EXPECT_EQ(same, i <= changed) << attention << ", " << changed << " at " << i;
        }
      }
    }
}

TEST(ImageTransformer, ImageSizedBlockMatchesFullAttention) {
  for (const ImageShape& image : {gray, color}) {
    const ModelInput reading = reading_of(random_pixels(2, image, image.values(), 1), image);
    const Values expected = values_of(scores_of(*make(tiny("full"), image), reading));
    ImageTransformerOptions one = tiny("local_1d");
    one.common.attention.local_1d = {.filter_width = 0, .block_length = image.values()};
    expect_close(values_of(scores_of(*make(one, image), reading)), expected, 1e-13);
    ImageTransformerOptions two = tiny("local_2d");
    two.common.attention.image = {.block = {image.height, image.width * image.channels},
                                  .flange = {1, 1}};
    expect_close(values_of(scores_of(*make(two, image), reading)), expected, 1e-13);
  }
}

TEST(ImageTransformer, PaddingAndEmptyRowsHaveZeroLoss) {
  const auto model = make(tiny("local_2d"), color);
  const Tensor pixels = random_pixels(2, color, 24, 1);
  const Tensor losses = losses_of(*model, {.fields = image_fields(pixels, 18, 1)}).value();
  for (std::int64_t i = 0; i < 48; ++i) EXPECT_EQ(losses.data<double>()[i] == 0, i >= 18) << i;
}

TEST(ImageTransformer, ClassAffectsEveryPosition) {
  ImageTransformerOptions options = tiny("local_2d");
  options.of_classes = true;
  const auto model = make(options, color);
  ModelInput reading = reading_of(random_pixels(1, color, 18, 1), color);
  const Tensor before = scores_of(*model, reading);
  reading.fields["label"].data<std::int64_t>()[0] = 2;
  const Tensor after = scores_of(*model, reading);
  for (std::int64_t i = 0; i < 18; ++i)
    EXPECT_NE(before.data<double>()[i * 256], after.data<double>()[i * 256]);
}

TEST(ImageTransformer, CachedLogitsMatchFullPass) {
  for (const char* const attention : {"local_1d", "local_2d"}) {
    ImageTransformerOptions options = tiny(attention);
    options.of_classes = true;
    const auto model = make(options, gray);
    const PixelSequence sequence = *model->body().end().pixels;
    const Tensor pixels = random_pixels(2, gray, 35, 1);
    const ModelInput whole = reading_of(pixels, gray);
    const Tensor expected = scores_of(*model, whole);
    const auto cache = std::make_shared<KVCache>();
    const NoGradGuard unrecorded;
    for (std::int64_t i = 0; i < 35; ++i) {
      const Tensor ids = Tensor::empty({2, 1}, DType::i64, testing::backend_device());
      for (std::int64_t row = 0; row < 2; ++row)
        sequence.read_at(i, pixels.data<std::int64_t>() + row * 35, ids.data<std::int64_t>() + row);
      const ModelInput one = {.fields = {{"tokens", ids}, {"label", whole.fields.at("label")}},
                              .only_last = true};
      const Tensor found = model->scores(one, ForwardContext{.kv_cache = cache}).scores.value();
      for (std::int64_t row = 0; row < 2; ++row)
        for (std::int64_t value = 0; value < 256; ++value)
          EXPECT_NEAR(found.data<double>()[row * 256 + value],
                      expected.data<double>()[(row * 35 + i) * 256 + value],
                      1e-12);
    }
  }
}

ImageTransformerOptions with_mixtures(const std::string& attention) {
  ImageTransformerOptions options = tiny(attention);
  options.values = PixelValues::mixtures;
  options.mixtures = 3;
  return options;
}

TEST(ImageTransformer, MixtureGradientsMatchFiniteDifferences) {
  for (const ImageShape& image : {gray, color}) {
    ImageTransformerOptions options = with_mixtures("local_2d");
    options.of_classes = true;
    const auto model = make(options, image);
    const ModelInput reading = reading_of(random_pixels(2, image, image.values() + 2, 1), image);
    testing::expect_model_gradients(
        *model, reading, ForwardContext{.training = true, .random = Random(3)});
  }
}

// The channels of a pixel are predicted together and do not depend on each other.
TEST(ImageTransformer, MixturesDoNotAttendToLaterPixels) {
  for (const char* const attention : {"local_1d", "local_2d"}) {
    const auto model = make(with_mixtures(attention), color);
    const PixelSequence sequence = *model->body().end().pixels;
    ASSERT_EQ(sequence.positions(), 6);
    const Tensor pixels = random_pixels(1, color, 18, 1);
    const Tensor before = scores_of(*model, reading_of(pixels, color));
    const std::int64_t numbers = before.shape()[2];
    ASSERT_EQ(before.shape(), (Shape{1, 6, 30}));
    for (std::int64_t changed = 0; changed < 5; ++changed)
      for (std::int64_t channel = 0; channel < 3; ++channel) {
        const Tensor other = pixels.clone();
        std::int64_t& value =
            other.data<std::int64_t>()[sequence.position_of(changed) * 3 + channel];
        value = (value + 100) % 256;
        const Tensor after = scores_of(*model, reading_of(other, color));
        for (std::int64_t i = 0; i <= changed + 1; ++i) {
          const bool same = std::equal(before.data<double>() + i * numbers,
                                       before.data<double>() + (i + 1) * numbers,
                                       after.data<double>() + i * numbers);
          EXPECT_EQ(same, i <= changed) << attention << ", " << changed << " at " << i;
        }
      }
  }
}

ImageTransformerOptions with_source(const std::string& attention = "local_2d") {
  ImageTransformerOptions options = tiny(attention);
  options.source = {.side = 2, .layers = 1};
  return options;
}

// Sources of `image`, as a field.
Tensor sources_of(const Tensor& pixels, const ImageShape& image, std::int64_t side) {
  const ImageShape shape = {side, side, image.channels};
  const std::int64_t rows = pixels.shape()[0], columns = pixels.shape()[1];
  const Tensor result =
      Tensor::empty({rows, shape.values()}, DType::i64, testing::backend_device());
  for (std::int64_t row = 0; row < rows; ++row)
    average_areas(
        image,
        {pixels.data<std::int64_t>() + row * columns, static_cast<std::size_t>(image.values())},
        shape,
        {result.data<std::int64_t>() + row * shape.values(),
         static_cast<std::size_t>(shape.values())});
  return result;
}

TEST(SuperResolution, GradientsMatchFiniteDifferences) {
  const ForwardContext pass = {.training = true, .random = Random(3)};
  for (const PixelPositions positions : {PixelPositions::sinusoidal, PixelPositions::learned}) {
    ImageTransformerOptions options = with_source();
    options.positions = positions;
    options.common.dropout = options.common.attention_dropout = 0.3;
    if (positions == PixelPositions::learned) options.values = PixelValues::mixtures;
    testing::expect_model_gradients(
        *make(options, color), reading_of(random_pixels(2, color, 20, 1), color), pass);
  }
}

TEST(SuperResolution, SourceIsTheAverageOfAreas) {
  for (const ImageShape& image : {gray, color}) {
    const auto model = make(with_source(), image);
    EXPECT_EQ(model->body().end().source_image, (ImageShape{2, 2, image.channels}));
    ModelInput reading = reading_of(random_pixels(2, image, image.values() + 1, 1), image);
    const Tensor expected = scores_of(*model, reading);
    reading.fields["source"] = sources_of(reading.fields.at("pixels"), image, 2);
    EXPECT_TRUE(testing::same_bits(scores_of(*model, reading), expected));
  }
}

// Each value of the source affects each score; values of the image affect only later ones.
TEST(SuperResolution, EveryScoreDependsOnTheWholeSource) {
  for (const char* const attention : {"local_1d", "local_2d"}) {
    const auto model = make(with_source(attention), color);
    const PixelSequence sequence = *model->body().end().pixels;
    ModelInput reading = reading_of(random_pixels(1, color, 18, 1), color);
    reading.fields["source"] = random_pixels(1, {2, 2, 3}, 12, 2);
    const Tensor before = scores_of(*model, reading);
    const auto differs = [&](const Tensor& after, std::int64_t i) {
      return !std::equal(before.data<double>() + i * 256,
                         before.data<double>() + (i + 1) * 256,
                         after.data<double>() + i * 256);
    };
    for (std::int64_t changed = 0; changed < 12; ++changed) {
      ModelInput other = reading;
      other.fields["source"] = reading.fields.at("source").clone();
      std::int64_t& value = other.fields["source"].data<std::int64_t>()[changed];
      value = (value + 100) % 256;
      const Tensor after = scores_of(*model, other);
      for (std::int64_t i = 0; i < 18; ++i) EXPECT_TRUE(differs(after, i)) << changed << ", " << i;
    }
    for (std::int64_t changed = 0; changed < 17; ++changed) {
      ModelInput other = reading;
      other.fields["pixels"] = reading.fields.at("pixels").clone();
      std::int64_t& value =
          other.fields["pixels"].data<std::int64_t>()[sequence.position_of(changed)];
      value = (value + 100) % 256;
      const Tensor after = scores_of(*model, other);
      for (std::int64_t i = 0; i <= changed; ++i) EXPECT_FALSE(differs(after, i));
    }
  }
}

TEST(SuperResolution, EmptyRowsHaveZeroLoss) {
  const auto model = make(with_source(), color);
  const Tensor pixels = random_pixels(2, color, 24, 1);
  const Tensor losses = losses_of(*model, {.fields = image_fields(pixels, 18, 1)}).value();
  for (std::int64_t i = 0; i < 48; ++i) EXPECT_EQ(losses.data<double>()[i] == 0, i >= 18) << i;
}

TEST(SuperResolution, RejectsInvalidOptions) {
  const auto expect_rejected = [](const auto& change, const std::string& part) {
    ImageTransformerOptions options = with_source();
    change(options);
    try {
      make(options, color);
      ADD_FAILURE() << part;
    } catch (const ConfigurationError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_rejected([](auto& options) { options.source.side = 3; },
                  "model.source_size: expected at most 2 (images of 3 x 2 x 3), found 3");
  expect_rejected([](auto& options) { options.of_classes = true; }, "model.class_conditional");
  expect_rejected([](auto& options) { options.common.use_parallel_residual = true; },
                  "model.use_parallel_residual");
}

TEST(ImageTransformer, RejectsInvalidOptions) {
  EXPECT_THROW(make_image_transformer(tiny(), testing::tiny_setting()), ConfigurationError);
  ImageTransformerOptions tied = tiny();
  tied.common.tied_embeddings = true;
  EXPECT_THROW(make(tied, gray), ConfigurationError);
  ImageTransformerOptions flat = tiny("local_2d");
  flat.common.attention.image.block = {2};
  EXPECT_THROW(make(flat, gray), ConfigurationError);
}

}  // namespace
}  // namespace longspan::image_transformer_test
