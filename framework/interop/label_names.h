// Class and tag names of Hugging Face `transformers`.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/interop/architecture.h"

namespace longspan {

// Sets the labels by id: "id2label", or "LABEL_0", "LABEL_1" ... for "num_labels" (default 2). Sets
// `num_labels` where the two disagree. Throws DataError unless they are single-label classes.
void read_label_names(const ModelConfig& config, ImportedConfig& meaning);

// Returns an Architecture::resolve that adopts `num_labels` labels if this tensor has that many
// rows. Missing names of "id2label" become "LABEL_N".
std::function<void(const TensorFinder& find, ImportedConfig& meaning)> label_settling(
    const std::string& readout);

// Unique names, as output heads here require.
struct DistinctNames {
  std::vector<std::string> names;
  std::map<std::string, std::string> given = {};  // original names of renamed ones
};
// Appends " (2)", " (3)" ... to repeated names. ImageNet has two classes called "crane".
DistinctNames distinct_names(const std::vector<std::string>& names);

// Checkpoint scalar with DistinctNames::given as JSON, if not empty.
inline constexpr const char* label_names_scalar = "import/label_names";

// Returns the original names. `given`: value of the scalar, or "". Throws DataError, prefixed with
// `place`, for invalid JSON.
std::vector<std::string> original_label_names(std::vector<std::string> names,
                                              const std::string& given,
                                              const std::string& place);

// Inverse of read_label_names: sets "id2label" and "label2id", where the last of repeated names
// wins.
void write_label_names(const std::vector<std::string>& names, nlohmann::ordered_json& config);

}  // namespace longspan
