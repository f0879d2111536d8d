// The architectures whose weights are taken and given: one file each, and the registry.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/interop/model_config.h"
#include "framework/interop/safetensors_header.h"
#include "framework/interop/tensor_pair.h"
#include "framework/interop/token_ids.h"

namespace longspan {

// The values of a configuration by key, as they are written: "model.hidden_size" -> "768". "none"
// stands for absence.
class ModelValues {
 public:
  explicit ModelValues(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // Throws Failure where there is no such key.
  const std::string& text(const std::string& key) const;
  bool is(const std::string& key, std::string_view wanted) const { return text(key) == wanted; }
  std::int64_t integer(const std::string& key) const;
  std::int64_t integer_or(const std::string& key, std::int64_t otherwise) const;
  double number_or(const std::string& key, double otherwise) const;
  // Of a list.
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  const std::map<std::string, std::string>& all() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

// Keys of a configuration, and their values as YAML has them.
using ModelSettings = std::vector<std::pair<std::string, std::string>>;

// What a config.json comes to here.
struct ImportedConfig {
  ModelSettings settings;
  std::vector<std::string> labels = {};   // names of classes or tags, in the order of their ids
  std::int64_t num_labels = 0;            // as config.json has it, where it has other labels
  std::vector<std::int64_t> image = {};   // of what reads images, their height, width and channels
  TokenIds token_ids = {};                // of what makes texts of texts
  std::vector<std::string> remarks = {};  // sentences for who imports it
};

// Null where a folder has no tensor of this name.
using TensorFinder = std::function<const StoredTensor*(const std::string& name)>;

inline constexpr const char* pixels_config_name = "preprocessor_config.json";

// Several may be of one type, each with other classes.
struct Architecture {
  std::string model_type;                       // of config.json
  std::string name;                             // "GPT-2"
  std::string family;                           // model.family
  std::vector<std::string> model_classes = {};  // what "architectures" may say; the first is
                                                // exported
  std::string prefix;  // of names, which weights of a bare body do not have

  // Throws DataError for whatever would make another function of it.
  std::function<ImportedConfig(const ModelConfig& config)> read;
  // Of a run with this configuration, what `read` makes the same model of. Where the run has what
  // this architecture does not, it leaves that out: export compares (export.h).
  std::function<nlohmann::ordered_json(const ModelValues& values)> write;
  // All weights of such a model.
  std::function<std::vector<TensorPair>(const ModelValues& values)> tensors;
  // Tensors that are constants and no weights: passed over. Names without the prefix.
  std::function<bool(std::string_view name)> is_constant;
  // Where it is set: second names of shared weights, each with the first. What is stored under both
  // must be equal, unless `is_left_out` names the second; stored under the second only, it is read
  // from there.
  std::function<std::vector<std::pair<std::string, std::string>>(const ModelValues& values)>
      copies = {};
  // Where it is set: tensors that no model here has, with their shapes, and that are zero. One that
  // is there must be so, and an export has them all.
  std::function<std::vector<std::pair<std::string, std::vector<std::int64_t>>>(
      const ModelValues& values)>
      zeros = {};
  // Where it is set: settles what config.json leaves open by the tensors that are there.
  std::function<void(const TensorFinder& find, ImportedConfig& meaning)> resolve = {};
  // Where it is set: what weights were called before, "" where they were not called otherwise.
  std::function<std::string(const std::string& name)> legacy_name = {};
  // Likewise: tensors of something that Longspan does not have, which an import leaves out.
  std::function<bool(std::string_view name)> is_unsupported_tensor = {};
  // Without the readout, which such a model has not learnt: nothing of it but what is optional.
  bool is_headless = false;
  // Where it is set, of what reads images: preprocessor_config.json, which says what becomes of
  // pixels. `values` then has the keys image.height, image.width and image.channels too.
  std::function<nlohmann::ordered_json(const ModelValues& values)> write_pixels = {};
};

const std::vector<Architecture>& architectures();
// Their names.
std::vector<std::string> architecture_names();
// Throws DataError where config.json names none that is known.
const Architecture& architecture_of(const ModelConfig& config);

}  // namespace longspan
