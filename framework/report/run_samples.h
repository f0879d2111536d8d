// Samples in a run's samples.jsonl: outputs generated at each validation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

struct WrittenText {
  std::string input;
  std::string output;
  std::string reference;
};

struct SamplesOfStep {
  std::int64_t step = 0;
  std::vector<WrittenText> texts = {};
};

// Parses and adds one line of the file, as read_run_samples does for each.
void add_sample(std::vector<SamplesOfStep>& samples, std::string_view line);

// Returns the samples in step order. Drops every second step until there are few enough, and
// truncates long texts. Skips invalid lines; a missing file has no samples.
std::vector<SamplesOfStep> read_run_samples(const std::filesystem::path& path);

// Drops every second step except the first and the last, until texts fit in `max_bytes`. If they
// still do not fit, drops the last texts of each step but its first.
void downsample_samples(std::vector<SamplesOfStep>& samples, std::size_t max_bytes);

// Returns {"strings": [...], "steps": [{"step": 100, "texts": [[input, output, reference], ...]},
// ...]}, escaped for a <script> element. Texts are indices into the deduplicated strings.
std::string samples_data(const std::vector<SamplesOfStep>& samples);

// Attention maps that `longspan attention-maps` wrote for a run.

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
