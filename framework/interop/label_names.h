// The names of classes or tags, as the package transformers writes them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/interop/architecture.h"

namespace longspan {

// Sets the labels in the order of their ids: "id2label", or "LABEL_0", "LABEL_1" ... for
// "num_labels" or 2; and `num_labels` where the two have different numbers. Throws DataError where
// they are no classes of which one is right.
void read_label_names(const ModelConfig& config, ImportedConfig& meaning);

// Architecture::settle: takes `num_labels` labels where this tensor has as many rows. Names are
// those of "id2label" as far as they go, then "LABEL_N".
std::function<void(const TensorFinder& find, ImportedConfig& meaning)> label_settling(
    const std::string& readout);

// Names of which no two are the same, as a readout here has them.
struct DistinctNames {
  std::vector<std::string> names;
  std::map<std::string, std::string> given = {};  // of those that are called otherwise here
};
// Of several names that are the same all but the first get " (2)", " (3)" and so on: ImageNet has
// two classes called "crane".
DistinctNames distinct_names(const std::vector<std::string>& names);

// The scalar of a checkpoint that holds DistinctNames::given as JSON, where some are.
inline constexpr const char* given_names_scalar = "import/label_names";

// The names as they were given; `given` is what the scalar holds, "" where it is not there. Throws
// DataError, which begins with `place`, where that is no such JSON.
std::vector<std::string> original_label_names(std::vector<std::string> names,
                                              const std::string& given,
                                              const std::string& place);

// The inverse of read_label_names: sets "id2label" and "label2id", in which of several names that
// are the same the last counts.
void write_label_names(const std::vector<std::string>& names, nlohmann::ordered_json& config);

}  // namespace longspan
