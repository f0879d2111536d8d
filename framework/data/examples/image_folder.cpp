#include "framework/data/examples/image_folder.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/rank_zero.h"
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

}  // namespace longspan
