// Attention maps that `longspan attention-maps` wrote for a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longspan {

struct HeadMap {
  std::int64_t layer = 0;
  std::int64_t head = 0;
  std::vector<std::vector<double>> weights = {};  // [query][key]
};

struct RunAttention {
  std::int64_t step = 0;
  std::vector<std::string> tokens = {};  // text of each token
  std::vector<HeadMap> maps = {};
};

// Return the attention file of the last step, and its maps. A missing directory or an invalid file
// has no maps.
std::filesystem::path newest_attention(const std::filesystem::path& folder);
RunAttention read_run_attention(const std::filesystem::path& file);

// Returns {"step", "tokens": [], "maps": [{"layer", "head", "weights": [[]]}]}, escaped for a
// <script> element. Includes as many maps as fit in `max_bytes`, and at least one. Weights are in
// thousandths.
std::string attention_data(const RunAttention& attention, std::size_t max_bytes);

}  // namespace longspan
