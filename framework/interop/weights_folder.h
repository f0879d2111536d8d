// A folder of a model as others pass it on: config.json, and weights in one or several files.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/interop/safetensors.h"

namespace longspan {

inline constexpr const char* single_file_name = "model.safetensors";
inline constexpr const char* index_name = "model.safetensors.index.json";
inline constexpr const char* model_config_name = "config.json";

class WeightsFolder {
 public:
  // Reads the headers: of model.safetensors, or of each file that model.safetensors.index.json says
  // tensors to be in. Throws DataError where neither or both are there, the index and the files say
  // different things, or a file is none of safetensors; it names weights of other formats.
  explicit WeightsFolder(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return folder_; }
  // All of them, by name.
  std::vector<std::string> names() const;
  // None where there is no such tensor.
  const StoredTensor* find(const std::string& name) const;
  // See SafetensorsFile::read. Throws DataError that names the folder where it is not there.
  Tensor read(const std::string& name) const;

 private:
  void open_shards();

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t, std::less<>> file_of_;  // a tensor's
};

// Writes the tensors of a folder, in as many files as it takes for none to have more than so many
// bytes of elements (a single tensor may), and an index where they are several.
class WeightsFolderWriter {
 public:
  WeightsFolderWriter(std::filesystem::path folder,
                      SafetensorsWriter::Tensors tensors,
                      DType dtype,
                      std::int64_t most_file_bytes);
  // In the order of `tensors`.
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

}  // namespace longspan
