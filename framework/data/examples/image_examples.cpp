#include "framework/data/examples/image_examples.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/decompressed_file.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/examples/label_examples.h"
#include "framework/data/tokenization/character_scan.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

std::vector<fs::directory_entry> entries_of(const fs::path& folder, const std::string& told) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (!is_hidden(at->path())) entries.push_back(*at);
  if (error) throw DataError("{}: cannot be read as a folder of images: {}", told, error.message());
  return entries;
}

// Returns 0 if the size is unavailable.
std::int64_t size_of_file(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

// Sorted names of the files in a directory.
struct Listing {
  std::vector<std::string> images;  // "LABEL/NAME.png"
  std::vector<std::string> others;  // other files, and ignored directories
};

Listing list_images(const ConfigPath& path) {
  Listing found;
  for (const auto& label : entries_of(path.text(), path.describe())) {
    const std::string name = label.path().filename().string();
    if (!label.is_directory()) {
      found.others.push_back(name);
      continue;
    }
    const std::size_t before = found.images.size();
    for (const auto& file : entries_of(label.path(), label.path().string())) {
      const bool is_image = lower_case(file.path().extension().string()) == ".png";
      (is_image ? found.images : found.others)
          .push_back(name + "/" + file.path().filename().string());
    }
    if (found.images.size() == before) found.others.push_back(name + "/");
  }
  std::ranges::sort(found.images);
  std::ranges::sort(found.others);
  return found;
}

ImageFolder scan(const ConfigPath& path, const ProgressCallback& heard) {
  const Listing found = list_images(path);
  ImageFolder folder{.path = path, .files = found.images, .shape = {}, .note = ""};
  if (folder.files.empty())
    throw DataError("{}: expected a folder of PNG files for each label, such as {}/cat/1.png{}",
                    path.describe(),
                    path.text(),
                    found.others.empty() ? "" : ", found " + some_in_quotes(found.others, "files"));
  if (!found.others.empty())
    folder.note = fmt::format(
        "{}: ignoring {} without PNG images", path.text(), some_in_quotes(found.others, "files"));
  std::int64_t looked = 0, size = 0;  // bytes scanned, and in total
  for (const std::string& file : folder.files) size += size_of_file(folder.path + "/" + file);
  for (const std::string& file : folder.files) {
    const std::string whole = folder.path + "/" + file;
    for_each_character(file, 0, true, whole, [](char32_t, std::int64_t) {});
    const ImageShape shape = png_shape(whole);
    if (&file == &folder.files.front()) folder.shape = shape;
    if (shape != folder.shape)
      throw DataError("{}: expected an image of {}, the shape of {}, found {}",
                      whole,
                      to_string(folder.shape),
                      folder.files.front(),
                      to_string(shape));
    looked += size_of_file(whole);
    if (heard) heard({folder.path, looked, size});
  }
  return folder;
}

class ImageExamples : public Examples {
 public:
  // `names`: labels of the images; `place`: prefix of the message about unknown ones.
  ImageExamples(const ImageShape& shape,
                LabelSet labels,
                const std::vector<std::string>& names,
                const std::string& place,
                UnknownLabels unknown)
      : shape_(shape), labels_(std::move(labels)), unknown_(unknown) {
    try {
      for (const std::string& name : names) labels_.id_at(name, "label", place);
    } catch (const DataError& error) {
      if (unknown == UnknownLabels::refused) throw;
      label_problem_ = error.what();
    }
  }

  std::optional<ImageShape> image() const override { return shape_; }
  std::string validate_label() const override { return label_problem_; }

  bool can_be_cut() const override { return false; }
  Lengths lengths(std::int64_t /*example*/) const override { return {0, values()}; }

  Batch read(const BatchRequest& request) const override {
    const auto read_row = [&](std::int64_t example, std::span<std::int64_t> row) -> ClassRow {
      read_pixels(example, row.first(static_cast<std::size_t>(values())));
      return {.length = values(), .bytes = values(), .label = label_id(example)};
    };
    return read_class_rows(request, "pixels", read_row);
  }

 protected:
  std::int64_t values() const { return shape_.values(); }
  // Returns nothing for an unlabeled image.
  virtual std::optional<std::string> label(std::int64_t example) const = 0;
  virtual void read_pixels(std::int64_t example, std::span<std::int64_t> pixels) const = 0;

 private:
  std::int64_t label_id(std::int64_t example) const {
    const std::optional<std::string> name = label(example);
    if (!name) return ignored_target;
    return unknown_ == UnknownLabels::taken ? labels_.id_of(*name)
                                            : labels_.id_at(*name, "label", place(example));
  }

  ImageShape shape_;
  LabelSet labels_;
  UnknownLabels unknown_;
  std::string label_problem_;
};

// Returns the distinct label names of a file.
std::vector<std::string> names_of(const IdxFile& labels) {
  std::vector<char> bytes(static_cast<std::size_t>(labels.size()));
  labels.read(0, bytes);
  std::vector<std::string> names;
  for (const unsigned char value : std::set<unsigned char>(bytes.begin(), bytes.end()))
    names.push_back(std::to_string(value));
  return names;
}

IdxFile open_idx_labels(const ConfigPath& path, const Communicator& all) {
  return IdxFile(path, 1, "labels", all);
}

ImageShape image_shape(const IdxFile& images) { return {images.axes()[1], images.axes()[2], 1}; }

std::vector<std::int64_t> read_image(const IdxFile& images, std::int64_t image) {
  std::vector<char> bytes(static_cast<std::size_t>(images.elements()));
  images.read(image, bytes);
  std::vector<std::int64_t> pixels(bytes.size());
  std::ranges::transform(
      bytes, pixels.begin(), [](char byte) { return static_cast<unsigned char>(byte); });
  return pixels;
}

// Returns whether a file is not PNG: IDX begins with two zero bytes, or is compressed.
bool is_idx(const std::string& path) {
  const InputFile file(path);
  std::string first(static_cast<std::size_t>(std::min<std::int64_t>(2, file.size())), '\0');
  file.copy(0, first);
  return first == std::string(2, '\0') || detect_compression(file) != Compression::none;
}

// Rank 0 decides, because collective opens depend on the result.
bool is_file(const ConfigPath& path, const Communicator& all) {
  std::error_code unused;
  const bool found = all.rank() == 0 && std::filesystem::is_regular_file(path.text(), unused);
  return all.broadcast(std::string(found ? "file" : "folder"), 0) == "file";
}

class IdxImages final : public ImageExamples {
 public:
  IdxImages(IdxFile images,
            std::optional<IdxFile> numbers,
            const LabelSet& labels,
            UnknownLabels unknown)
      : ImageExamples(image_shape(images),
                      labels,
                      numbers ? names_of(*numbers) : std::vector<std::string>(),
                      numbers ? numbers->file().path() : "",
                      unknown),
        images_(std::move(images)),
        numbers_(std::move(numbers)) {
    if (numbers_ && images_.size() != numbers_->size())
      throw DataError("{}: has {} images, but {} has {} labels",
                      path(),
                      images_.size(),
                      numbers_->file().path(),
                      numbers_->size());
  }

  std::int64_t size() const override { return images_.size(); }
  const std::string& path() const override { return images_.file().path(); }
  std::string place(std::int64_t example) const override {
    return fmt::format("{}: image {}", path(), example);
  }

 protected:
  std::optional<std::string> label(std::int64_t example) const override {
    if (!numbers_) return std::nullopt;
    char value = 0;
    numbers_->read(example, std::span(&value, 1));
    return std::to_string(static_cast<unsigned char>(value));
  }
  void read_pixels(std::int64_t example, std::span<std::int64_t> pixels) const override {
    std::ranges::copy(read_image(images_, example), pixels.begin());
  }

 private:
  IdxFile images_;
  std::optional<IdxFile> numbers_;
};

class PngImages final : public ImageExamples {
 public:
  PngImages(ImageFolder folder, const LabelSet& labels, UnknownLabels unknown)
      : ImageExamples(folder.shape, labels, folder.labels(), folder.path, unknown),
        folder_(std::move(folder)) {}

  std::int64_t size() const override { return std::ssize(folder_.files); }
  const std::string& path() const override { return folder_.path; }
  std::string place(std::int64_t example) const override {
    return folder_.path + "/" + folder_.files[static_cast<std::size_t>(example)];
  }

 protected:
  std::optional<std::string> label(std::int64_t example) const override {
    return label_of(folder_.files[static_cast<std::size_t>(example)]);
  }
  void read_pixels(std::int64_t example, std::span<std::int64_t> pixels) const override {
    const PngImage image = read_png(place(example));
    if (image.shape != folder_.shape) throw DataError("{}: changed while reading", place(example));
    std::ranges::copy(image.values, pixels.begin());
  }

 private:
  ImageFolder folder_;
};

}  // namespace

std::string label_of(const std::string& file) { return file.substr(0, file.find('/')); }

std::vector<std::string> ImageFolder::labels() const {
  std::set<std::string> names;
  for (const std::string& file : files) names.insert(label_of(file));
  return {names.begin(), names.end()};
}

std::uint64_t fingerprint_of_folder(const ConfigPath& path) {
  std::vector<std::string> files = list_images(path).images;
  for (std::string& file : files) {
    std::error_code unused;
    file += fmt::format(" {}", fs::file_size(fs::path(path.text()) / file, unused));
  }
  const std::string all = fmt::format("{}", fmt::join(files, "\n"));
  return XXH3_64bits(all.data(), all.size());
}

std::vector<std::string> images_in(const ConfigPath& path) {
  std::vector<std::string> files = list_images(path).images;
  for (std::string& file : files) file = path.text() + "/" + file;
  return files;
}

ImageFolder open_image_folder(const ConfigPath& path,
                              const Communicator& all,
                              const ProgressCallback& listener) {
  const std::string found =
      run_on_rank_zero(all, path, 0, listener, [path](const ProgressCallback& heard) {
        const ImageFolder folder = scan(path, heard);
        return nlohmann::json{{"files", folder.files},
                              {"height", folder.shape.height},
                              {"width", folder.shape.width},
                              {"channels", folder.shape.channels},
                              {"note", folder.note}}
            .dump();
      });
  const auto json = nlohmann::json::parse(found);
  return {path,
          json.at("files").get<std::vector<std::string>>(),
          {json.at("height"), json.at("width"), json.at("channels")},
          json.at("note")};
}

LabelSet learn_image_labels(const ImageFiles& files,
                            const Communicator& all,
                            const ProgressCallback& listener) {
  if (files.labels.empty() && is_file(files.images, all)) return LabelSet({"image"});
  if (files.labels.empty())
    return LabelSet(open_image_folder(files.images, all, listener).labels());
  return LabelSet(names_of(open_idx_labels(files.labels, all)));
}

std::vector<Pixels> read_images(const std::string& path, const Communicator& all) {
  if (!is_idx(path)) {
    const PngImage image = read_png(path);
    return {{image.shape, {image.values.begin(), image.values.end()}}};
  }
  const IdxFile images(path, 3, "images", all);
  std::vector<Pixels> result;
  for (std::int64_t i = 0; i < images.size(); ++i)
    result.push_back({image_shape(images), read_image(images, i)});
  return result;
}

std::shared_ptr<const Examples> open_images(const ImageFiles& files,
                                            const LabelSet& labels,
                                            const Communicator& all,
                                            const ProgressCallback& listener,
                                            UnknownLabels unknown) {
  if (files.labels.empty() && !is_file(files.images, all)) {
    ImageFolder folder = open_image_folder(files.images, all, listener);
    if (listener && !folder.note.empty()) listener({folder.path, 0, 0, folder.note});
    return std::make_shared<const PngImages>(std::move(folder), labels, unknown);
  }
  IdxFile images(files.images, 3, "images", all);
  std::optional<IdxFile> numbers;
  if (!files.labels.empty()) numbers = open_idx_labels(files.labels, all);
  return std::make_shared<const IdxImages>(std::move(images), std::move(numbers), labels, unknown);
}

}  // namespace longspan
