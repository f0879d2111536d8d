// metrics.jsonl: one JSON object a logged step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/metrics/figure.h"
#include "framework/runs/step_meter.h"
#include "framework/train/trainer.h"

namespace longspan {

// What differs from run to run.
struct StepTiming {
  double tokens_per_second = 0;
  double model_flops_utilisation = 0;  // of the measured peak of all ranks
  std::int64_t peak_memory_bytes = 0;  // of the rank that needs most
  // Of a step, as a mean of those since the line before; as "step_seconds", "reading_seconds", ...
  StepTimes times = {};
};

struct StepMetrics {
  std::int64_t step = 0;    // counted from 1: the state after that many steps
  std::int64_t tokens = 0;  // since step 0
  double loss = 0;          // nats a token
  double learning_rate = 0;
  double gradient_norm = 0;                         // before clipping
  std::optional<double> loss_scale = {};            // with f16
  std::optional<double> reconstruction_error = {};  // of reversible streams, where it was measured
  std::optional<StepTiming> timing = {};
  std::vector<TermLoss> terms = {};  // where the loss has several, as "loss_NAME"
  // As "NAME_mean" and "NAME_largest".
  std::vector<WatchedResult> watched = {};
  std::vector<std::pair<std::string, double>> figures = {};  // of the body's weights
  std::vector<Figure> validation = {};                       // of the task, as "validation_NAME"
};

// One line, without its end. Numbers read back to the same bits. What JSON has no number for
// becomes null, with its name beside it: "loss": null, "loss_reason": "nan" (or "inf", "-inf").
std::string json_line(const StepMetrics& metrics);

// How far a file of metrics goes.
struct MetricsEnd {
  std::int64_t step = 0;       // of its last whole line; 0 where there is none, or no file
  std::int64_t with_loss = 0;  // of the last one whose loss is a number
};
// Throws DataError as MetricsFile does.
MetricsEnd end_of_metrics(const std::filesystem::path& path);

// The file, open for one rank to append. What was written before `last_step` stays; lines after it,
// and a last line that a killed run left unfinished, are cut off, so that a resumed run's file is
// that of an unbroken run. Each line is written by one write(2).
class MetricsFile {
 public:
  // last_step: of the checkpoint that the run goes on from; 0 for a new run, which begins an empty
  // file. Throws DataError, naming the line, when what is there is no file of metrics, and Failure
  // when it cannot be opened or cut.
  MetricsFile(const std::filesystem::path& path, std::int64_t last_step);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  // Throws Failure when the line cannot be written whole.
  void write(const StepMetrics& metrics);
  // Returns when all lines are on the disk: before a checkpoint, so that none of its steps is lost.
  void sync();

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace longspan
