// samples.jsonl: what the model wrote at each validation, one JSON object a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "checkpoints/files.h"
#include "framework/tasks/task.h"

namespace longspan {

// One line, without its end: {"step": 100, "sample": 0, "input": "...", "output": "...",
// "reference": "..."}. What is no UTF-8 becomes U+FFFD.
std::string json_line(std::int64_t step, std::size_t number, const TextSample& sample);

// The file, open for one rank to append. As with MetricsFile lines of steps up to `last_step` stay,
// so that a resumed run's file is that of an unbroken run.
class SamplesFile {
 public:
  // last_step: of the checkpoint that the run goes on from; 0 for a new run, which begins an empty
  // file. Throws DataError, naming the line, when what is there is no file of samples, and Failure
  // when it cannot be opened or cut.
  SamplesFile(const std::filesystem::path& path, std::int64_t last_step);

  // Those of a step, by one write(2). Throws Failure when they cannot be written whole.
  void write(std::int64_t step, std::span<const TextSample> samples);
  // Returns when all lines are on the disk: before a checkpoint, so that none of its steps is lost.
  void sync();

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace longspan
