#include "framework/interop/weights_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "checkpoints/step_directory.h"
#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/quote.h"
#include "framework/interop/model_config.h"

namespace longspan {

namespace fs = std::filesystem;

namespace {

// Returns unsupported weight files, for messages.
std::string other_weights(const fs::path& folder) {
  for (const char* name : {"pytorch_model.bin",
                           "pytorch_model.bin.index.json",
                           "tf_model.h5",
                           "flax_model.msgpack",
                           "consolidated.00.pth"})
    if (path_exists(folder / name))
      return fmt::format(", found {}; save the model as safetensors", name);
  return "";
}

// Returns whether text is a printable file name within the directory.
bool is_file_name(const std::string& text) {
  const auto breaks_a_line = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  };
  return !text.empty() && text.size() <= 255 && text != "." && text != ".." &&
         text.find('/') == std::string::npos && std::ranges::none_of(text, breaks_a_line);
}

// SAX handler of {"metadata": ..., "weight_map": {tensor: file}} that stores only the map.
class IndexEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexEvents(const std::string& place) : place_(place) {}
  std::map<std::string, std::string> take() && {
    if (!had_map_) throw DataError("{}: missing \"weight_map\"", place_);
    return std::move(files_);
  }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(std::int64_t) override { return value("a number"); }
  bool number_unsigned(std::uint64_t) override { return value("a number"); }
  bool number_float(double, const std::string&) override { return value("a number"); }
  bool binary(nlohmann::json::binary_t&) override { return value("bytes"); }
  bool string(std::string& text) override {
    if (!in_map_ || depth_ != 2) return value("a string");
    if (!is_file_name(text))
      throw DataError("{}: tensor {}: expected the name of a file in this directory, found {}",
                      place_,
                      quote(name_),
                      quote(text));
    if (files_.size() == max_stored_tensors)
      throw DataError("{}: expected at most {} tensors", place_, max_stored_tensors);
    if (!files_.try_emplace(name_, std::move(text)).second)
      throw DataError("{}: duplicate tensor {}", place_, quote(name_));
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) {
      in_map_ = text == "weight_map";
      if (in_map_ && had_map_) throw DataError("{}: duplicate \"weight_map\"", place_);
      had_map_ = had_map_ || in_map_;
    } else {
      name_ = std::move(text);
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (++depth_ > max_json_depth || (in_map_ && depth_ > 2))
      throw DataError("{}: objects are nested too deep", place_);
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return value("a list"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::json::exception&) override {
    throw DataError("{}: invalid JSON at byte {}", place_, position);
  }

 private:
  // Ignores values outside of the map.
  bool value(const char* found) const {
    if (depth_ == 0) throw DataError("{}: expected an object, found {}", place_, found);
    if (in_map_)
      throw DataError(
          "{}: \"weight_map\": expected a file name for each tensor, found {}", place_, found);
    return true;
  }

  const std::string& place_;
  std::map<std::string, std::string> files_;
  std::string name_;
  int depth_ = 0;
  bool in_map_ = false;
  bool had_map_ = false;
};

std::map<std::string, std::string> read_index(const fs::path& path) {
  const std::string text = InputFile(path.string()).text(max_header_bytes);
  const std::string place = path.string();
  IndexEvents events(place);
  nlohmann::json::sax_parse(text, &events);
  return std::move(events).take();
}

constexpr const char* temporary = ".tmp-";
constexpr const char* locked = ".lock-";

fs::path sibling(const fs::path& path, const char* use, const std::string& id) {
  fs::path result = path;
  result += use + id;
  return result;
}

// Removes directories of dead writers. A directory without a lock file is not ours.
void remove_abandoned(const fs::path& path) {
  std::vector<std::string> left;
  const std::string begin = path.filename().string() + locked;
  std::error_code error;
  for (fs::directory_iterator entry(path.parent_path(), error), end; !error && entry != end;
       entry.increment(error))
    if (const std::string name = entry->path().filename().string(); name.starts_with(begin))
      left.push_back(name.substr(begin.size()));
  for (const std::string& id : left) {
    std::optional<LockFile> lock = LockFile::acquire_abandoned(sibling(path, locked, id));
    if (!lock) continue;
    fs::remove_all(sibling(path, temporary, id), error);
    lock->remove();
  }
}

}  // namespace

WeightsFolder::WeightsFolder(const fs::path& folder) : folder_(folder) {
  const bool is_single = path_exists(folder / single_file_name);
  const bool is_sharded = path_exists(folder / index_name);
  if (is_single && is_sharded)
    throw DataError("{}: expected {} or {}, found both; delete one",
                    folder.string(),
                    single_file_name,
                    index_name);
  if (!is_single && !is_sharded)
    throw DataError("{}: expected {} or {}{}",
                    folder.string(),
                    single_file_name,
                    index_name,
                    other_weights(folder));
  if (is_sharded) {
    open_shards();
    return;
  }
  files_.emplace_back(folder / single_file_name);
  for (const auto& [name, tensor] : files_.front().tensors()) file_of_.emplace(name, 0);
}

void WeightsFolder::open_shards() {
  const std::string place = (folder_ / index_name).string();
  const auto index = read_index(folder_ / index_name);
  std::map<std::string, std::size_t> opened;
  for (const auto& [name, file] : index) {
    const auto [entry, is_new] = opened.try_emplace(file, files_.size());
    if (is_new) files_.emplace_back(folder_ / file);
    if (!files_[entry->second].tensors().contains(name))
      throw DataError("{}: tensor {} is missing in {}", place, quote(name), file);
    file_of_.emplace(name, entry->second);
  }
  for (const SafetensorsFile& file : files_)
    for (const auto& [name, tensor] : file.tensors()) {
      const auto entry = index.find(name);
      if (entry == index.end() || entry->second != file.path().filename())
        throw DataError("{}: tensor {} is in {}, but {}",
                        place,
                        quote(name),
                        file.path().filename().string(),
                        entry == index.end() ? "the index does not list it"
                                             : "the index names " + entry->second);
    }
}

std::vector<std::string> WeightsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

const StoredTensor* WeightsFolder::find(const std::string& name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : &files_[found->second].tensors().at(name);
}

Tensor WeightsFolder::read(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end())
    throw DataError("{}: no such tensor {}", folder_.string(), quote(name));
  return files_[found->second].read(name);
}

WeightsFolderWriter::WeightsFolderWriter(fs::path folder,
                                         SafetensorsWriter::Tensors tensors,
                                         DType dtype,
                                         std::int64_t max_file_bytes)
    : folder_(std::move(folder)), dtype_(dtype) {
  std::int64_t bytes = 0;
  for (auto& tensor : tensors) {
    auto of_tensor = static_cast<std::int64_t>(size_of(dtype));
    for (const std::int64_t extent : tensor.second) of_tensor *= extent;
    if (shards_.empty() || (bytes > 0 && of_tensor > max_file_bytes - bytes)) {
      shards_.emplace_back();
      bytes = 0;
    }
    bytes += of_tensor;
    shards_.back().push_back(std::move(tensor));
  }
}

std::string WeightsFolderWriter::file_name(std::size_t shard) const {
  if (shards_.size() == 1) return single_file_name;
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards_.size());
}

void WeightsFolderWriter::write(const std::string& name, const Tensor& tensor) {
  require(shard_ < shards_.size(), "tensor \"{}\": all tensors have been written", name);
  if (!writer_)
    writer_ =
        std::make_unique<SafetensorsWriter>(folder_ / file_name(shard_), shards_[shard_], dtype_);
  writer_->write(name, tensor);
  if (++written_ == shards_[shard_].size()) end_shard();
}

void WeightsFolderWriter::end_shard() {
  writer_->finish();
  writer_.reset();
  ++shard_;
  written_ = 0;
}

void WeightsFolderWriter::finish() {
  require(shard_ == shards_.size() && !writer_, "not all tensors were written");
  if (shards_.size() == 1) return;
  nlohmann::json map = nlohmann::json::object();
  std::int64_t bytes = 0;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    for (const auto& [name, shape] : shards_[shard]) {
      map[name] = file_name(shard);
      auto of_tensor = static_cast<std::int64_t>(size_of(dtype_));
      for (const std::int64_t extent : shape) of_tensor *= extent;
      bytes += of_tensor;
    }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  write_text_file(folder_ / index_name, index.dump(2) + "\n");
}

AtomicDirectory::AtomicDirectory(const fs::path& path, const std::string& asked_by) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  const bool exists = fs::exists(status);
  if (exists && (!fs::is_directory(status) || !fs::is_empty(path, error) || error))
    throw ConfigurationError(
        "{}: {} already exists; name a new or empty directory", asked_by, path.string());
  // Drops a trailing "/", so that the path has a file name and a parent.
  path_ = fs::absolute(path).lexically_normal();
  if (path_.filename().empty()) path_ = path_.parent_path();
  fs::create_directories(path_.parent_path(), error);
  std::string id = unique_id();
  if (!error) {
    remove_abandoned(path_);
    while (!lock_.held()) lock_ = LockFile::create(sibling(path_, locked, id = unique_id()));
  }
  const fs::path made = sibling(path_, temporary, id);
  if (!error) fs::create_directory(made, error);
  if (error) {
    lock_.remove();
    throw Failure("{}: {} cannot be created: {}", asked_by, made.string(), error.message());
  }
  temporary_path_ = made;
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code unused;
  if (!finished_) fs::remove_all(temporary_path_, unused);
  lock_.remove();
}

void AtomicDirectory::finish() {
  sync_directory(temporary_path_);
  std::error_code error;
  fs::rename(temporary_path_, path_, error);
  if (error) throw Failure("{}: cannot be renamed into place: {}", path_.string(), error.message());
  finished_ = true;
  sync_directory(path_.parent_path());
}

}  // namespace longspan
