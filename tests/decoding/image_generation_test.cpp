// Images sampled value by value.
#include <cmath>
#include <map>

#include "framework/autograd/losses.h"
#include "framework/decoding/generation.h"
#include "tests/models/image_testing.h"

namespace longspan::image_generation_test {
namespace {

using testing::image_fields;
using testing::random_pixels;

constexpr ImageShape image = {4, 2, 3};  // 24 values

std::unique_ptr<Model> make(const std::string& attention,
                            bool of_classes = true,
                            PixelValues values = PixelValues::categories,
                            std::optional<std::int64_t> source = {}) {
  ImageTransformerOptions options;
  options.source.side = source;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.tied_embeddings = false;
  options.common.attention.kinds = {attention};
  options.common.attention.local_1d = {.filter_width = 2, .block_length = 4};
  options.common.attention.image = {.block = {2, 3}, .flange = {1, 2}};
  options.of_classes = of_classes;
  options.values = values;
  ModelBuildOptions setting = testing::tiny_setting(image.values());
  setting.classes = 3;
  setting.image = image;
  return testing::make_image_transformer(options, setting);
}

std::vector<PartialImage> drafts(std::int64_t count) {
  std::vector<PartialImage> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(
        {std::vector<std::int64_t>(static_cast<std::size_t>(image.values()), -1), i % 3});
  return result;
}

// Images whose sources of 2 x 2 x 3 values differ.
std::vector<PartialImage> drafts_with_sources(std::int64_t count) {
  std::vector<PartialImage> result = drafts(count);
  const Tensor sources = random_pixels(count, {2, 2, 3}, 12, 7);
  for (std::int64_t i = 0; i < count; ++i)
    result[static_cast<std::size_t>(i)].source.assign(sources.data<std::int64_t>() + i * 12,
                                                      sources.data<std::int64_t>() + (i + 1) * 12);
  return result;
}

// Expects the most probable value at each drawn position, computed in a pass over the full image.
void expect_likeliest(const Model& model,
                      const PartialImage& drawn,
                      const std::vector<bool>& is_drawn) {
  const Tensor pixels =
      Tensor::from<std::int64_t>(drawn.values, {1, image.values()}, testing::backend_device());
  Fields fields = image_fields(pixels, image.values());
  fields["label"].data<std::int64_t>()[0] = drawn.label;
  if (!drawn.source.empty())
    fields["source"] = Tensor::from<std::int64_t>(
        drawn.source, {1, std::ssize(drawn.source)}, testing::backend_device());
  const Tensor scores = model.scores({.fields = fields}, ForwardContext()).scores.value();
  const PixelSequence sequence = *model.body().end().pixels;
  for (std::int64_t i = 0; i < image.values(); ++i) {
    const std::int64_t place = sequence.position_of(i);
    if (!is_drawn[static_cast<std::size_t>(place)]) continue;
    const double* const row = scores.data<double>() + i * 256;
    EXPECT_EQ(drawn.values[static_cast<std::size_t>(place)], std::max_element(row, row + 256) - row)
        << i;
  }
}

TEST(SampleImages, MatchesArgmaxAtTemperatureZero) {
  for (const char* const attention : {"local_1d", "local_2d"}) {
    const auto model = make(attention);
    std::vector<PartialImage> images = drafts(3);
    sample_images(*model, images, {.sampling = {.temperature = 0}, .batch_size = 2});
    for (const PartialImage& drawn : images)
      expect_likeliest(*model, drawn, std::vector<bool>(24, true));
  }
}

TEST(SampleImages, EnlargesSources) {
  for (const char* const attention : {"local_1d", "local_2d"}) {
    const auto model = make(attention, false, PixelValues::categories, 2);
    std::vector<PartialImage> images = drafts_with_sources(3);
    sample_images(*model, images, {.sampling = {.temperature = 0}, .batch_size = 2});
    for (const PartialImage& drawn : images)
      expect_likeliest(*model, drawn, std::vector<bool>(24, true));
    std::vector<PartialImage> without = drafts(1);
    EXPECT_THROW(sample_images(*model, without, {}), Failure);
  }
}

TEST(SampleImages, CompletesPartialImages) {
  for (const char* const attention : {"local_1d", "local_2d"}) {
    const auto model = make(attention);
    const Tensor pixels = random_pixels(1, image, image.values(), 5);
    std::vector<PartialImage> images = drafts(1);
    std::vector<bool> is_drawn(24, true);
    for (std::size_t place = 0; place < 12; ++place) {  // the upper half
      images[0].values[place] = pixels.data<std::int64_t>()[place];
      is_drawn[place] = false;
    }
    sample_images(*model, images, {.sampling = {.temperature = 0}});
    for (std::size_t place = 0; place < 12; ++place)
      EXPECT_EQ(images[0].values[place], pixels.data<std::int64_t>()[place]);
    expect_likeliest(*model, images[0], is_drawn);
  }
}

TEST(SampleImages, SamplesDoNotDependOnBatchSize) {
  for (const PixelValues values : {PixelValues::categories, PixelValues::mixtures}) {
    const auto model = make("local_2d", true, values);
    std::vector<PartialImage> together = drafts(5), apart = together;
    sample_images(*model, together, {.seed = 7});
    sample_images(*model, apart, {.seed = 7, .batch_size = 2});
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(together[i].values, apart[i].values);
    EXPECT_NE(together[0].values, together[3].values);  // equal classes
    for (const PartialImage& draft : together)
      for (const std::int64_t value : draft.values) EXPECT_TRUE(value >= 0 && value < 256);
  }
}

// Chi-squared of the first value of many images, in 16 bins, against the model's probabilities.
TEST(SampleImages, SamplesFollowDistribution) {
  const auto model = make("local_1d", false);
  const std::int64_t count = 2000;
  std::vector<PartialImage> images = drafts(count);
  for (PartialImage& draft : images)
    for (std::size_t place = 1; place < draft.values.size(); ++place) draft.values[place] = 0;
  sample_images(*model, images, {.seed = 1, .batch_size = 500});
  const Tensor pixels = Tensor::zeros({1, image.values()}, DType::i64, testing::backend_device());
  const Tensor scores =
      model->scores({.fields = image_fields(pixels, image.values())}, ForwardContext())
          .scores.value();
  double total = 0;
  for (int v = 0; v < 256; ++v) total += std::exp(scores.data<double>()[v]);
  double squares = 0;
  for (int bin = 0; bin < 16; ++bin) {
    double expected = 0, found = 0;
    for (int v = 16 * bin; v < 16 * bin + 16; ++v)
      expected += static_cast<double>(count) * std::exp(scores.data<double>()[v]) / total;
    for (const PartialImage& draft : images) found += draft.values[0] / 16 == bin ? 1 : 0;
    squares += (found - expected) * (found - expected) / expected;
  }
  EXPECT_LT(squares, 37.7);  // 99.9% of 15 degrees of freedom
}

// Chi-squared of colors against the probabilities of the loss. Channels shift each other's means.
// Small scales concentrate the probability on a few colors.
TEST(MixtureSampling, ColorsFollowDistribution) {
  constexpr std::int64_t mixtures = 2, count = 4000;
  const std::vector<double> numbers = {0.4,  -0.3,                         // logits
                                       -0.6, 0.5,  -6.2, -5.9, 0.9, -1.1,  // red
                                       0.1,  -1.3, -6.1, -5.8, 0.2, 0.3,   // green, whose second
                                       0.0,  0.4,  -6.5, -9.0, 0.1, 0.7};  // mean is below 0
  std::map<std::vector<std::int64_t>, double> found;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> color(3, -1);
    sample_logistic_mixture(numbers, mixtures, 1, Random(3).child(i), color);
    found[color] += 1;
  }
  const std::int64_t colors = std::ssize(found);
  std::vector<double> repeated;
  std::vector<std::int64_t> values;
  for (const auto& [color, times] : found) {
    repeated.insert(repeated.end(), numbers.begin(), numbers.end());
    values.insert(values.end(), color.begin(), color.end());
  }
  const Variable losses = logistic_mixture_losses(
      Variable(
          Tensor::from<double>(repeated, {colors, std::ssize(numbers)}, testing::backend_device())),
      Tensor::from<std::int64_t>(values, {colors, 3}, testing::backend_device()),
      mixtures);
  double squares = 0, expected_left = count, found_left = count;
  const double* loss = losses.value().data<double>();
  int cells = 0;
  for (const auto& [color, times] : found) {
    const double expected = count * std::exp(-*loss++);
    if (expected < 10) continue;
    squares += (times - expected) * (times - expected) / expected;
    expected_left -= expected;
    found_left -= times;
    ++cells;
  }
  ASSERT_GT(expected_left, 0);
  squares += (found_left - expected_left) * (found_left - expected_left) / expected_left;
  EXPECT_GT(cells, 10);
  // 99.9% of a chi-squared distribution, by Wilson and Hilferty.
  const double freedom = cells;
  EXPECT_LT(squares,
            freedom * std::pow(1 - 2 / (9 * freedom) + 3.09 * std::sqrt(2 / (9 * freedom)), 3));
}

TEST(SampleImages, RejectsAttentionWithoutKVCache) {
  const auto model = make("memory_compressed");
  std::vector<PartialImage> images = drafts(1);
  EXPECT_THROW(sample_images(*model, images, {}), ConfigurationError);
}

}  // namespace
}  // namespace longspan::image_generation_test
