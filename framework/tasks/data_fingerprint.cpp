#include <fmt/chrono.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "framework/core/error.h"
#include "framework/core/system.h"
#include "framework/data/examples/image_examples.h"
#include "framework/tasks/task.h"

namespace longspan {
namespace {

constexpr std::int64_t max_bytes = std::int64_t{1} << 30;
constexpr std::int64_t second = 1'000'000'000;  // in nanoseconds

std::int64_t time_of_change(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    throw DataError("{}: stat failed: {}", path, errno_message());
  return status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec;
}

std::string time_text(std::int64_t nanoseconds) {
  const std::time_t time = nanoseconds / second;
  std::tm local = {};
  if (localtime_r(&time, &local) == nullptr) return "an invalid time";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

// Returns the latest modification time of a folder's images.
std::int64_t time_of_folder(const ConfigPath& path) {
  std::int64_t last = 0;
  for (const std::string& image : images_in(path)) last = std::max(last, time_of_change(image));
  return last;
}

DataFingerprint identity_of(const Corpus& corpus) {
  std::int64_t last = 0;
  for (const CorpusFile& file : corpus.files()) last = std::max(last, time_of_change(file.path()));
  return {corpus.fingerprint(), last, corpus.full_hash(max_bytes)};
}

// Returns the result of rank 0 on every rank.
template <typename Find>
DataFingerprint agreed(const Communicator& world, const Find& find) {
  DataFingerprint mine;
  if (world.rank() == 0) mine = find();
  // Other ranks contribute 0.
  const auto of_first = [&](std::uint64_t value) {
    return static_cast<std::uint64_t>(
        world.all_reduce(static_cast<std::int64_t>(value), Reduction::sum));
  };
  const bool has_hash = of_first(mine.hash.has_value() ? 1 : 0) != 0;
  const std::uint64_t hash = of_first(mine.hash.value_or(0));
  DataFingerprint found = {
      of_first(mine.sample),
      static_cast<std::int64_t>(of_first(static_cast<std::uint64_t>(mine.modified)))};
  if (has_hash) found.hash = hash;
  return found;
}

}  // namespace

void DataFingerprint::save(Scalars& scalars) const {
  scalars.set(corpus_scalar, sample);
  scalars.set(text_time_scalar, modified);
  if (hash) scalars.set(text_hash_scalar, *hash);
}

DataFingerprint identify_text(const Corpus& corpus, const Communicator& world) {
  return agreed(world, [&] { return identity_of(corpus); });
}

DataFingerprint identify_files(std::initializer_list<ConfigPath> files, const Communicator& world) {
  std::optional<DataFingerprint> all;
  for (const ConfigPath& file : files) {
    if (file.empty()) continue;
    const DataFingerprint one = agreed(world, [&]() -> DataFingerprint {
      std::error_code unused;
      if (!std::filesystem::is_directory(file.text(), unused))
        return identity_of(Corpus(std::make_shared<const InputFile>(file), Tokenizer()));
      return {fingerprint_of_folder(file), time_of_folder(file)};
    });
    if (!all) {
      all = one;
      continue;
    }
    all->sample = all->sample * 31 + one.sample;
    all->modified = std::max(all->modified, one.modified);
    if (all->hash && one.hash)
      all->hash = *all->hash * 31 + *one.hash;
    else
      all->hash.reset();
  }
  return all.value_or(DataFingerprint());
}

std::string describe_data_change(const Scalars& saved,
                                 const DataFingerprint& found,
                                 const std::string& path) {
  const bool has_both = found.hash && saved.has(text_hash_scalar);
  if (saved.get<std::uint64_t>(corpus_scalar) != found.sample ||
      (has_both && saved.get<std::uint64_t>(text_hash_scalar) != *found.hash))
    return fmt::format("{} differs from the text that the checkpoint was trained on", path);
  // Older checkpoints lack the modification time.
  if (has_both || saved.get_or<std::int64_t>(text_time_scalar, found.modified) == found.modified)
    return "";
  return fmt::format(
      "{} was modified at {}, but at {} when the checkpoint's run opened it; its size is the same, "
      "it is too large to compare, and its text may differ from that of the checkpoint",
      path,
      time_text(found.modified),
      time_text(saved.get<std::int64_t>(text_time_scalar)));
}

}  // namespace longspan
