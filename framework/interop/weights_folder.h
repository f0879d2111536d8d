// Hugging Face model directory: config.json, and weights in one or several files. Also directories
// that appear only when they are complete.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/files.h"
#include "framework/interop/safetensors.h"

namespace longspan {

inline constexpr const char* single_file_name = "model.safetensors";
inline constexpr const char* index_name = "model.safetensors.index.json";
inline constexpr const char* model_config_name = "config.json";

class WeightsFolder {
 public:
  // Reads the headers of model.safetensors, or of the files in model.safetensors.index.json. Throws
  // DataError where neither or both exist, the index contradicts the files, or a file is invalid.
  // The message names weights of other formats.
  explicit WeightsFolder(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return folder_; }
  // Returns all names, sorted.
  std::vector<std::string> names() const;
  // Returns null for a missing tensor.
  const StoredTensor* find(const std::string& name) const;
  // As SafetensorsFile::read. Throws DataError, which names the directory, for a missing tensor.
  Tensor read(const std::string& name) const;

 private:
  void open_shards();

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t, std::less<>> file_of_;  // of a tensor
};

// Writes tensors into shards of at most `max_file_bytes` bytes of elements (a single tensor may
// exceed it), and an index if there are several.
class WeightsFolderWriter {
 public:
  WeightsFolderWriter(std::filesystem::path folder,
                      SafetensorsWriter::Tensors tensors,
                      DType dtype,
                      std::int64_t max_file_bytes);
  // Writes the next tensor in the order of `tensors`.
  void write(const std::string& name, const Tensor& tensor);
  void finish();

 private:
  std::string file_name(std::size_t shard) const;
  void end_shard();

  std::filesystem::path folder_;
  DType dtype_;
  std::vector<SafetensorsWriter::Tensors> shards_;
  std::size_t shard_ = 0;
  std::size_t written_ = 0;  // of the shard
  std::unique_ptr<SafetensorsWriter> writer_;
};

// A directory that appears at its path only when it is complete.

class AtomicDirectory {
 public:
  // Creates a temporary directory next to `path`, which must be missing or an empty directory.
  // Removes leftovers of killed writers of an equal path. `asked_by`: prefix of messages. Throws
  // ConfigurationError where `path` exists, and Failure where the directory cannot be created.
  AtomicDirectory(const std::filesystem::path& path, const std::string& asked_by);
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  // Deletes the directory recursively unless `finish` was called.
  ~AtomicDirectory();

  // Path to write into, until `finish`.
  const std::filesystem::path& inside() const { return temporary_path_; }
  // Renames the directory to `path`. Its content must be synced. Throws Failure.
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_path_;
  LockFile lock_;  // PATH.lock-ID, held while PATH.tmp-ID is written
  bool finished_ = false;
};

}  // namespace longspan
