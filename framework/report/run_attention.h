// What `longspan attention` wrote of a run: what heads look at in a text.
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
  std::vector<std::vector<double>> weights = {};  // by query, of each key
};

struct RunAttention {
  std::int64_t step = 0;
  std::vector<std::string> tokens = {};  // the text of each
  std::vector<HeadMap> maps = {};
};

// The file that is of the last step. Of a folder that is not there, and of a file that says
// something else, there are no maps.
std::filesystem::path newest_attention(const std::filesystem::path& folder);
RunAttention read_run_attention(const std::filesystem::path& file);

// {"step", "tokens": [], "maps": [{"layer", "head", "weights": [[]]}]}, to stand inside of a
// <script>, with as many of the maps as take at most `most_bytes`, and at least one. Weights are in
// thousandths.
std::string attention_data(const RunAttention& attention, std::size_t most_bytes);

}  // namespace longspan
