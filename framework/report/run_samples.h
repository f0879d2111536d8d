// What a run's samples.jsonl says: texts that the model made at each validation.
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

// Adds what a line of the file says, as read_run_samples does for each.
void add_sample(std::vector<SamplesOfStep>& samples, std::string_view line);

// By steps in their order. Of very many steps every second one is left out, as often as it takes,
// and long texts are cut. Lines that are no samples do not count, and where there is no file there
// are none.
std::vector<SamplesOfStep> read_run_samples(const std::filesystem::path& path);

// Leaves out every second step, though not the first and the last, until texts take at most so many
// bytes, and of what is still too much the last texts of each step but its first.
void downsample_samples(std::vector<SamplesOfStep>& samples, std::size_t most_bytes);

// {"strings": [...], "steps": [{"step": 100, "texts": [[input, output, reference], ...]}, ...]}, to
// stand inside of a <script>; texts are places among the strings, each of which is there once.
std::string samples_data(const std::vector<SamplesOfStep>& samples);

}  // namespace longspan
