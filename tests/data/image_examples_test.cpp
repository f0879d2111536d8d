#include "framework/data/examples/image_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <cstdio>
#include <functional>

#include "framework/data/batching/bucketed_source.h"
#include "framework/data/examples/images.h"
#include "tests/data/example_files.h"
#include "tests/data/packed_text.h"
#include "tests/support/temporary_directory.h"

namespace longspan::image_examples_test {
namespace {

using testing::at;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::row;

// Three images of 2 x 2, labels 7, 0 and 7.
const std::string images(
    "\0\0\x08\x03\0\0\0\3\0\0\0\2\0\0\0\2"
    "abcdefgh\0\0\0\xFF",
    28);
const std::string numbers("\0\0\x08\x01\0\0\0\3\7\0\7", 11);

std::string refused(const std::string& image_bytes, const std::string& label_bytes) {
  const TemporaryFile first(image_bytes);
  const TemporaryFile second(label_bytes);
  return message_of<DataError>([&] {
    open_images({first.path(), second.path()}, LabelSet({"0", "7"}), Communicator());
  });
}

// A folder with the labels "cat" and "dog", and images of 2 x 3.
class PngFolder {
 public:
  PngFolder() {
    write("cat/1.png", {2, 3, 1}, 10);
    write("cat/2.png", {2, 3, 1}, 20);
    write("dog/1.png", {2, 3, 1}, 30);
    std::ofstream(directory_.path() / "dog/read.me") << "no image";
  }
  std::string path() const { return directory_.path().string(); }
  void write(const std::string& name, const ImageShape& shape, std::uint8_t first) const {
    std::filesystem::create_directories((directory_.path() / name).parent_path());
    std::vector<std::uint8_t> values(static_cast<std::size_t>(shape.values()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::uint8_t>(first + i);
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    image.height = static_cast<png_uint_32>(shape.height);
    image.width = static_cast<png_uint_32>(shape.width);
    image.format = shape.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    ASSERT_NE(png_image_write_to_file(
                  &image, (directory_.path() / name).c_str(), 0, values.data(), 0, nullptr),
              0);
  }
  std::string refused() const {
    return message_of<DataError>([&] {
      open_images({path()}, learn_image_labels({path()}, Communicator()), Communicator());
    });
  }

 private:
  testing::TemporaryDirectory directory_;
};

// A PNG file with the given bytes of all rows, and channels of 1 to 16 bits.
struct StoredPng {
  png_uint_32 width = 0;
  int depth = 8;
  int color = PNG_COLOR_TYPE_GRAY;
  std::vector<png_byte> bytes;
  bool is_interlaced = false;
  // Adds chunks before the pixels.
  std::function<void(png_structp, png_infop)> describe = {};
};

std::vector<std::uint8_t> values_read(const StoredPng& image) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.path() / "image.png";
  FILE* const file = std::fopen(path.c_str(), "wb");
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file);
  const bool is_palette = image.color == PNG_COLOR_TYPE_PALETTE;
  const int channels = is_palette ? 1
                                  : 1 + ((image.color & PNG_COLOR_MASK_COLOR) != 0 ? 2 : 0) +
                                        ((image.color & PNG_COLOR_MASK_ALPHA) != 0 ? 1 : 0);
  const std::size_t row_bytes =
      (image.width * static_cast<std::size_t>(channels * image.depth) + 7) / 8;
  const std::size_t height = image.bytes.size() / row_bytes;
  png_set_IHDR(png,
               info,
               image.width,
               static_cast<png_uint_32>(height),
               image.depth,
               image.color,
               image.is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (image.describe) image.describe(png, info);
  png_write_info(png, info);
  std::vector<png_byte> bytes = image.bytes;
  std::vector<png_bytep> rows;
  for (std::size_t row = 0; row < height; ++row) rows.push_back(bytes.data() + row * row_bytes);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  std::fclose(file);
  const PngImage found = read_png(path);
  EXPECT_EQ(png_shape(path), found.shape);
  EXPECT_EQ(found.shape.width, image.width);
  EXPECT_EQ(found.shape.height, height);
  return found.values;
}

TEST(ImageExamples, ReadsIdxFiles) {
  const TemporaryFile first(images);
  const TemporaryFile second(numbers);
  const ImageFiles files = {first.path(), second.path()};
  const LabelSet labels = learn_image_labels(files, Communicator());
  EXPECT_THAT(labels.names(), ElementsAre("0", "7"));
  const auto examples = open_images(files, labels, Communicator());
  ASSERT_EQ(examples->size(), 3);
  const std::vector<std::int64_t> rows = {2, -1, 1};
  const Batch batch = examples->read({.examples = rows, .columns = {0, 8}});
  EXPECT_THAT(row(batch, "pixels", 0, 8), ElementsAre(0, 0, 0, 255, 0, 0, 0, 0));
  EXPECT_THAT(row(batch, "pixels", 1, 4), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(row(batch, "pixels", 2, 4), ElementsAre('e', 'f', 'g', 'h'));
  EXPECT_EQ(at(batch, "label", 0), 1);
  EXPECT_EQ(at(batch, "label", 1), ignored_target);
  EXPECT_EQ(at(batch, "label", 2), 0);
  EXPECT_EQ(at(batch, "length", 0), 4);
  EXPECT_EQ(batch.count("rows"), 2);
  // data.max_length does not truncate images.
  BucketedSource source(examples, {.batch_tokens = 16, .longest = 2}, 1, {});
  EXPECT_EQ(source.next().field("pixels").shape(), (Shape{2, 8}));
}

TEST(ImageExamples, RejectsInvalidIdxFiles) {
  EXPECT_EQ(refused(images, numbers), "");
  EXPECT_THAT(refused(images.substr(0, 27), numbers),
              HasSubstr("truncated: expected 12 bytes of images, as in the header, found 11"));
  EXPECT_THAT(refused(images + "x", numbers), HasSubstr("too long"));
  EXPECT_THAT(refused(images.substr(0, 9), numbers), HasSubstr("truncated: 9 bytes"));
  EXPECT_THAT(refused(images.substr(0, 2), numbers), HasSubstr("expected an IDX file of images"));
  EXPECT_THAT(refused(images, numbers.substr(0, 10)),
              HasSubstr("truncated: expected 3 bytes of labels, as in the header, found 2"));
  EXPECT_THAT(refused(numbers, numbers), HasSubstr("expected an IDX file of images"));
  EXPECT_THAT(refused(gzip_of(images).substr(0, 20), numbers),
              HasSubstr("unexpected end of the compressed data"));
  EXPECT_THAT(refused(gzip_of("no images"), numbers), HasSubstr("expected an IDX file of images"));
  EXPECT_THAT(refused(images, std::string("\0\0\x08\x01\0\0\0\2\7\0", 10)),
              HasSubstr("has 3 images, but "));
  EXPECT_THAT(refused(images, std::string("\0\0\x08\x01\0\0\0\3\7\0\5", 11)),
              HasSubstr("unknown label \"5\", expected one of the 2 of training"));
  const std::string vast("\0\0\x08\x03\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 16);
  EXPECT_THAT(refused(vast, numbers), HasSubstr("axis 1 in the header"));
}

TEST(ImageExamples, AcceptsUnknownLabelsOnRequest) {
  const TemporaryFile first(images);
  const TemporaryFile second(numbers);
  const PngFolder folder;
  const std::vector<std::int64_t> rows = {0, 1, 2};
  for (const ImageFiles& files : {ImageFiles{first.path(), second.path()}, {folder.path()}}) {
    const auto examples =
        open_images(files, LabelSet({"0", "cat"}), Communicator(), {}, UnknownLabels::taken);
    const Batch batch = examples->read({.examples = rows, .columns = {0, 8}});
    int known = 0;
    for (const std::int64_t row : rows) known += at(batch, "label", row) >= 0 ? 1 : 0;
    EXPECT_EQ(known, files.labels.empty() ? 2 : 1);
    EXPECT_THAT(examples->validate_label(), HasSubstr("expected one of the 2 of training"));
  }
}

TEST(ImageExamples, ReadsCompressedIdxFiles) {
  for (const auto& [of_images, of_numbers] : {std::pair(gzip_of(images), gzip_of(numbers)),
                                              std::pair(zstd_of(images), zstd_of(numbers))}) {
    const TemporaryFile first(of_images);
    const TemporaryFile second(of_numbers);
    const ImageFiles files = {first.path(), second.path()};
    const LabelSet labels = learn_image_labels(files, Communicator());
    EXPECT_THAT(labels.names(), ElementsAre("0", "7"));
    const auto examples = open_images(files, labels, Communicator());
    ASSERT_EQ(examples->size(), 3);
    const std::vector<std::int64_t> rows = {1};
    const Batch batch = examples->read({.examples = rows, .columns = {0, 4}});
    EXPECT_THAT(row(batch, "pixels", 0, 4), ElementsAre('e', 'f', 'g', 'h'));
    EXPECT_EQ(at(batch, "label", 0), 0);
    EXPECT_EQ(read_images(first.path(), Communicator()).size(), 3);
  }
}

TEST(ImageExamples, SkipsHiddenFoldersAndReportsIgnoredFiles) {
  const PngFolder folder;
  const std::uint64_t before = fingerprint_of_folder(folder.path());
  folder.write(".ipynb_checkpoints/1.png", {2, 3, 1}, 40);
  folder.write("cat/.thumbnails/1.png", {2, 3, 1}, 40);
  EXPECT_EQ(fingerprint_of_folder(folder.path()), before);
  folder.write("dog/3.PNG", {2, 3, 1}, 50);
  std::filesystem::create_directories(folder.path() + "/eel");
  const LabelSet labels = learn_image_labels({folder.path()}, Communicator());
  EXPECT_THAT(labels.names(), ElementsAre("cat", "dog"));
  std::string note;
  const auto examples =
      open_images({folder.path()}, labels, Communicator(), [&](const ScanProgress& scan) {
        if (!scan.note.empty()) note = scan.note;
      });
  EXPECT_EQ(examples->size(), 4);
  EXPECT_THAT(note, HasSubstr("ignoring files \"dog/read.me\", \"eel/\""));
}

TEST(ImageExamples, ReadsFoldersWithPngFiles) {
  const PngFolder folder;
  const LabelSet labels = learn_image_labels({folder.path()}, Communicator());
  EXPECT_THAT(labels.names(), ElementsAre("cat", "dog"));
  const auto examples = open_images({folder.path()}, labels, Communicator());
  ASSERT_EQ(examples->size(), 3);
  const std::vector<std::int64_t> rows = {2, 0};
  const Batch batch = examples->read({.examples = rows, .columns = {0, 8}});
  EXPECT_THAT(row(batch, "pixels", 0, 8), ElementsAre(30, 31, 32, 33, 34, 35, 0, 0));
  EXPECT_THAT(row(batch, "pixels", 1, 6), ElementsAre(10, 11, 12, 13, 14, 15));
  EXPECT_EQ(at(batch, "label", 0), 1);
  EXPECT_EQ(at(batch, "label", 1), 0);
}

TEST(ImageExamples, ReadsInterleavedRgbAndRejectsMixedShapes) {
  const PngFolder folder;
  folder.write("new/1.png", {1, 2, 3}, 5);
  const PngImage image = read_png(folder.path() + "/new/1.png");
  EXPECT_EQ(image.shape, (ImageShape{1, 2, 3}));
  EXPECT_THAT(image.values, ElementsAre(5, 6, 7, 8, 9, 10));
  EXPECT_THAT(folder.refused(),
              HasSubstr("new/1.png: expected an image of 2 x 3 x 1, the shape of cat/1.png, "
                        "found 1 x 2 x 3"));
}

// Values 0x00, 0x40, 0x80 and 0xC0 with 8 and 16 bits, under each color description.
TEST(PngImage, StoredValuesDoNotDependOnColorManagement) {
  const std::vector<png_byte> shallow = {0x00, 0x40, 0x80, 0xC0};
  const std::vector<png_byte> deep = {0x00, 0x00, 0x40, 0x40, 0x80, 0x80, 0xC0, 0xC0};
  const std::pair<const char*, std::function<void(png_structp, png_infop)>> described[] = {
      {"nothing", {}},
      {"gAMA 1", [](png_structp png, png_infop info) { png_set_gAMA(png, info, 1.0); }},
      {"gAMA 1/2.2", [](png_structp png, png_infop info) { png_set_gAMA(png, info, 0.45455); }},
      {"sRGB",
       [](png_structp png, png_infop info) {
         png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
       }},
      {"gAMA and cHRM", [](png_structp png, png_infop info) {
         png_set_gAMA(png, info, 0.5);
         png_set_cHRM(png, info, 0.3127, 0.329, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06);
       }}};
  for (const auto& [name, describe] : described) {
    SCOPED_TRACE(name);
    EXPECT_THAT(values_read({.width = 2, .bytes = shallow, .describe = describe}),
                ElementsAre(0, 64, 128, 192));
    EXPECT_THAT(values_read({.width = 2, .depth = 16, .bytes = deep, .describe = describe}),
                ElementsAre(0, 64, 128, 192));
    EXPECT_THAT(values_read({.width = 1,
                             .depth = 16,
                             .color = PNG_COLOR_TYPE_RGB,
                             .bytes = {0, 0, 0x40, 0x40, 0x80, 0x80},
                             .describe = describe}),
                ElementsAre(0, 64, 128));
  }
}

TEST(PngImage, Rounds16BitValuesToNearest8BitValues) {
  // 127, 128, 129, 385, 386, 65406, 65407 and 65535, divided by 257.
  EXPECT_THAT(
      values_read(
          {.width = 4,
           .depth = 16,
           .bytes = {0, 127, 0, 128, 0, 129, 1, 129, 1, 130, 255, 126, 255, 127, 255, 255}}),
      ElementsAre(0, 0, 1, 1, 2, 254, 255, 255));
}

TEST(PngImage, ScalesLowBitDepthsToFullRange) {
  EXPECT_THAT(values_read({.width = 4, .depth = 1, .bytes = {0b0110'0000}}),
              ElementsAre(0, 255, 255, 0));
  EXPECT_THAT(values_read({.width = 4, .depth = 2, .bytes = {0b0001'1011}}),
              ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(values_read({.width = 2, .depth = 4, .bytes = {0x1F}}), ElementsAre(17, 255));
}

TEST(PngImage, ExpandsPalettesToRgb) {
  const auto palette = [](png_structp png, png_infop info) {
    const png_color colors[] = {{1, 2, 3}, {100, 150, 200}, {255, 0, 9}, {4, 5, 6}};
    png_set_PLTE(png, info, colors, 4);
    png_set_gAMA(png, info, 1.0);
  };
  const StoredPng image = {.width = 2,
                           .depth = 2,
                           .color = PNG_COLOR_TYPE_PALETTE,
                           .bytes = {0b1000'0000, 0b0111'0000},
                           .describe = palette};
  EXPECT_THAT(values_read(image), ElementsAre(255, 0, 9, 1, 2, 3, 100, 150, 200, 4, 5, 6));
  StoredPng transparent = image;
  transparent.describe = [&](png_structp png, png_infop info) {
    palette(png, info);
    const png_byte alpha[] = {255, 51, 0};
    png_set_tRNS(png, info, alpha, 3, nullptr);
  };
  EXPECT_THAT(values_read(transparent), ElementsAre(0, 0, 0, 1, 2, 3, 20, 30, 40, 4, 5, 6));
}

TEST(PngImage, CompositesTransparencyOnBlack) {
  EXPECT_THAT(
      values_read(
          {.width = 3, .color = PNG_COLOR_TYPE_GRAY_ALPHA, .bytes = {200, 255, 200, 51, 200, 0}}),
      ElementsAre(200, 40, 0));
  EXPECT_THAT(values_read({.width = 1,
                           .depth = 16,
                           .color = PNG_COLOR_TYPE_RGB_ALPHA,
                           .bytes = {200, 200, 100, 100, 50, 50, 0x80, 0x00}}),
              ElementsAre(100, 50, 25));
  // One value that a chunk declares transparent.
  EXPECT_THAT(values_read({.width = 3,
                           .bytes = {7, 8, 9},
                           .describe =
                               [](png_structp png, png_infop info) {
                                 png_color_16 transparent = {};
                                 transparent.gray = 8;
                                 png_set_tRNS(png, info, nullptr, 0, &transparent);
                               }}),
              ElementsAre(7, 0, 9));
}

TEST(PngImage, ReadsInterlacedRowsInOrder) {
  StoredPng image = {.width = 9, .depth = 16, .bytes = {}, .is_interlaced = true};
  std::vector<std::uint8_t> expected;
  for (int i = 0; i < 9 * 10; ++i) {
    expected.push_back(static_cast<std::uint8_t>(i));
    image.bytes.insert(image.bytes.end(), 2, static_cast<png_byte>(i));
  }
  EXPECT_EQ(values_read(image), expected);
}

std::vector<std::int64_t> averaged(const ImageShape& image,
                                   const std::vector<std::int64_t>& values,
                                   const ImageShape& reduced) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(reduced.values()));
  average_areas(image, values, reduced, result);
  return result;
}

TEST(AverageAreas, RoundsDownTheMeanOfEachArea) {
  EXPECT_THAT(averaged({2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 9}, {1, 2, 1}), ElementsAre(3, 5));
  EXPECT_THAT(averaged({1, 4, 1}, {255, 255, 255, 254}, {1, 2, 1}), ElementsAre(255, 254));
  // Areas of 1.5 values: (2 * 10 + 20) / 3 and (20 + 2 * 40) / 3.
  EXPECT_THAT(averaged({1, 3, 1}, {10, 20, 40}, {1, 2, 1}), ElementsAre(13, 33));
  EXPECT_THAT(averaged({1, 2, 2}, {1, 100, 3, 200}, {1, 1, 2}), ElementsAre(2, 150));
  EXPECT_THAT(averaged({2, 2, 1}, {1, 2, 3, 4}, {2, 2, 1}), ElementsAre(1, 2, 3, 4));
}

// 28 = 3.5 * 8: an area has rows and columns of half their weight.
TEST(AverageAreas, MatchesExactMeansOfFractionalAreas) {
  const ImageShape image = {28, 28, 1}, reduced = {8, 8, 1};
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < image.values(); ++i) values.push_back(i * i % 256);
  const std::vector<std::int64_t> found = averaged(image, values, reduced);
  for (std::int64_t row = 0; row < 8; ++row)
    for (std::int64_t column = 0; column < 8; ++column) {
      std::int64_t quarters = 0;  // sum over quarters of values
      for (std::int64_t y = 7 * row; y < 7 * row + 7; ++y)
        for (std::int64_t x = 7 * column; x < 7 * column + 7; ++x)
          quarters += values[static_cast<std::size_t>(y / 2 * 28 + x / 2)];
      EXPECT_EQ(found[static_cast<std::size_t>(row * 8 + column)], quarters / 49);
    }
}

TEST(EnlargeImage, RepeatsPixels) {
  const PngImage image = {{1, 2, 1}, {7, 9}};
  EXPECT_THAT(enlarge_image(image, {2, 3, 1}).values, ElementsAre(7, 7, 9, 7, 7, 9));
}

TEST(ImageExamples, RejectsTruncatedOrDamagedPngFiles) {
  const PngFolder folder;
  EXPECT_EQ(folder.refused(), "");
  const std::string path = folder.path() + "/cat/2.png";
  const auto size = std::filesystem::file_size(path);
  for (std::uintmax_t left : {size - 1, size - 13, size - 20, std::uintmax_t{20}}) {
    folder.write("cat/2.png", {2, 3, 1}, 20);
    std::filesystem::resize_file(path, left);
    EXPECT_THAT(folder.refused(), HasSubstr("cat/2.png: "));
    if (left < size - 1) {
      EXPECT_THAT(message_of<DataError>([&] { read_png(path); }), HasSubstr("cat/2.png: "));
    }
  }
  folder.write("cat/2.png", {2, 3, 1}, 20);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  file.seekp(static_cast<std::streamoff>(bytes.find("IDAT")) + 8);
  file.put('\x55');
  file.close();
  EXPECT_THAT(message_of<DataError>([&] { read_png(path); }),
              HasSubstr("cat/2.png: cannot be read as a PNG file: "));
  std::ofstream(path, std::ios::trunc)
      << "GIF89a, and so much more that chunks could be looked for in it";
  EXPECT_THAT(folder.refused(), HasSubstr("cat/2.png: cannot be read as a PNG file: Not a PNG"));
}

TEST(ImageExamples, RejectsFolderWithoutImages) {
  const testing::TemporaryDirectory empty;
  EXPECT_THAT(
      message_of<DataError>([&] { learn_image_labels({empty.path().string()}, Communicator()); }),
      HasSubstr("expected a folder of PNG files"));
  EXPECT_THAT(message_of<DataError>([&] {
                learn_image_labels({empty.path().string() + "/missing"}, Communicator());
              }),
              HasSubstr("cannot be read as a folder of images"));
}

}  // namespace
}  // namespace longspan::image_examples_test
