// The names of classes or tags, as the package transformers writes them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/weights/model_config.h"

namespace longspan {

// In the order of their ids: "id2label", or "LABEL_0", "LABEL_1" ... for "num_labels" or 2. Throws
// DataError where they are no classes of which one is right.
std::vector<std::string> read_label_names(const ModelConfig& config);

// The inverse: sets "id2label" and "label2id".
void write_label_names(const std::vector<std::string>& names, nlohmann::ordered_json& config);

}  // namespace longspan
