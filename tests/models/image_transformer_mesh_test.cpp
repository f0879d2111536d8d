// The Image Transformer matches one process on every layout and in every memory mode, with dropout.
#include "models/image_transformer.h"
#include "tests/models/equality_testing.h"
#include "tests/models/image_testing.h"

namespace longspan::image_transformer_mesh_test {
namespace {

using testing::Case;
using testing::dropped_options;
using testing::Kind;

constexpr ImageShape image = {3, 2, 3};  // 18 values
constexpr std::int64_t time = 19;        // one column of padding

// Four images per step; the second step has one empty row.
Batch batch_of_images(const Case&, int step, const StreamRange& rows) {
  const Tensor pixels =
      testing::random_pixels(4, image, time, static_cast<std::uint64_t>(step + 1));
  const std::int64_t empty = step == 1 ? 3 : -1;
  Batch batch;
  batch.fields =
      rows_of(testing::image_fields(pixels, image.values(), empty), rows.begin, rows.end);
  const std::int64_t images = rows.count() - (empty >= rows.begin && empty < rows.end ? 1 : 0);
  batch.counts = {{"rows", images}, {"tokens", images * image.values()}};
  batch.first_row = rows.begin;
  batch.resets_state = true;
  return batch;
}

Kind kind_of(const std::string& name,
             const std::vector<std::string>& attention,
             PixelPositions positions,
             bool of_classes,
             PixelValues values = PixelValues::categories,
             std::optional<std::int64_t> source = {}) {
  Kind kind;
  kind.name = name;
  kind.make = [=](ResidualKind residual, const ModelBuildOptions& setting) {
    ImageTransformerOptions options;
    options.common = dropped_options(NormPosition::pre);
    options.common.tied_embeddings = false;
    options.common.residual = residual;
    // Key biases have zero gradient up to rounding, which Adam amplifies; small weights keep the
    // error below the bound.
    options.common.initial_deviation = 0.05;
    options.common.attention.kinds = attention;
    options.common.attention.local_1d = {.filter_width = 3, .block_length = 4};
    options.common.attention.image = {.block = {2, 4}, .flange = {1, 2}};
    options.positions = positions;
    options.of_classes = of_classes;
    options.values = values;
    options.mixtures = 2;
    options.source.side = source;
    return testing::make_image_transformer(options, setting);
  };
  kind.batch = batch_of_images;
  return kind;
}

TEST(ImageTransformerLayouts, EveryModelMatchesOneProcess) {
  const Case common = {.segment = time, .steps = 3, .classes = 3, .image = image};
  testing::expect_equal(
      {kind_of("local_1d", {"local_1d"}, PixelPositions::sinusoidal, false),
       kind_of("local_2d, learned positions", {"local_2d"}, PixelPositions::learned, false),
       kind_of("both, of classes", {"local_2d", "local_1d"}, PixelPositions::learned, true),
       kind_of("local_2d, mixtures",
               {"local_2d"},
               PixelPositions::sinusoidal,
               false,
               PixelValues::mixtures),
       kind_of("of a source",
               {"local_1d", "local_2d"},
               PixelPositions::learned,
               false,
               PixelValues::categories,
               2)},
      testing::layouts(),
      common);
}

}  // namespace
}  // namespace longspan::image_transformer_mesh_test
