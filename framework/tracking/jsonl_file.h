// Files of JSON lines, each of a step, that resume at a checkpoint, and their formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "framework/tracking/metrics_record.h"

namespace longspan {

// Helpers for files that a run appends to.

// Throws Failure with the path, the failed operation and the errno message.
[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what);

// Appends the bytes to an open file with one write(2). Throws Failure on an incomplete write.
void write_all(int file, const std::filesystem::path& path, std::string_view bytes);

// Flushes written data to disk. Throws Failure.
void fsync_file(int file, const std::filesystem::path& path);

// Format of the lines of a file: JSON objects in step order.
struct JsonlFormat {
  std::string_view begin;     // prefix of every line
  std::string_view step_key;  // key of the step
  // Key of the loss, where the format has one.
  std::string_view loss_key = {};
  // Key of the gradient norm, where the format has one.
  std::string_view norm_key = {};
  // Key of a string, where every line has one.
  std::string_view text_key = {};
  std::string_view a_line = "a line of metrics";  // noun for messages
  // A record's lines, each with its newline; empty: none.
  std::function<std::string(const MetricsRecord&)> lines;
};

// The end of a metrics file.
struct MetricsEnd {
  std::int64_t step = 0;              // of its last complete line; 0: none, or no file
  std::int64_t with_loss = 0;         // of the last one with finite loss and gradient norm
  std::int64_t with_loss_before = 0;  // of the last such one before it
};
// Throws DataError as JsonlFile does.
MetricsEnd end_of_lines(const std::filesystem::path& path, const JsonlFormat& kind);

// The file, open on one rank for appending. Lines up to `last_step` stay; later lines, and an
// incomplete last line of a killed run, are removed. So a resumed run's file equals an
// uninterrupted run's. A record's lines are one write(2).
class JsonlFile : public MetricsSink {
 public:
  // last_step: of the checkpoint that the run resumes from; 0 for a new run, which starts an empty
  // file. Throws DataError, with the line number, when the existing file has another format; the
  // file is then unchanged. Throws Failure when it cannot be opened or truncated.
  JsonlFile(const std::filesystem::path& path, std::int64_t last_step, JsonlFormat kind);
  JsonlFile(const JsonlFile&) = delete;
  JsonlFile& operator=(const JsonlFile&) = delete;
  ~JsonlFile() override;

  void write(const MetricsRecord& record) override;
  void sync() override;

 private:
  std::filesystem::path path_;
  JsonlFormat kind_;
  int file_ = -1;
};

// JSON line formats of a record.

// metrics.jsonl: one object per logged step. Numbers read back to the same bits. A non-finite
// number becomes null, followed by its reason: "loss": null, "loss_reason": "nan" (or "inf",
// "-inf").
JsonlFormat metrics_lines();
// Returns a metrics line, without its newline.
std::string json_line(const MetricsRecord& record);

// samples.jsonl: one object per sample, {"step": 100, "sample": 0, "input": "...", "output": "...",
// "reference": "..."}. Invalid UTF-8 becomes U+FFFD.
JsonlFormat samples_lines();

// One object per logged step in the history format of Weights & Biases: flat, with "_step",
// "_timestamp" in seconds, and tags as keys. A non-finite number is a string that Python's float()
// accepts: "NaN", "Infinity", "-Infinity".
JsonlFormat wandb_lines();

// One object per number in MLflow's log format: "key", "value", "timestamp" in milliseconds,
// "step". Keys are made valid for MLflow: disallowed characters become "_", non-ASCII bytes are
// escaped ("_c3"). Paths have no empty, "." and ".." components. In keys of more than 250
// characters the middle is replaced by "_".
JsonlFormat mlflow_lines();

}  // namespace longspan
