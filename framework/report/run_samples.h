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

}  // namespace longspan
