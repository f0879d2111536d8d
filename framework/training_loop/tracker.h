// Metrics outputs of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/tracking/jsonl_file.h"
#include "framework/tracking/metrics_record.h"
#include "framework/tracking/sinks.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/run_directory.h"
#include "framework/training_loop/step_metrics.h"

namespace longspan {

// Writes metrics.jsonl and the other outputs of the section `metrics`: all metrics of steps except
// the log. Rank 0 writes. Collective functions are marked.
class Tracker {
 public:
  // Opens the Prometheus endpoint if configured. Collective. Throws ConfigurationError on every
  // rank if that fails.
  Tracker(const RunConfig& settings, const RunDirectory& directory, const Communicator& world);

  // Opens the files, which continue from the run's first step. Later steps are truncated, also in
  // files that this run does not write. Collective. Throws DataError and Failure as JsonlFile and
  // TensorBoardFiles do. Throws ConfigurationError if the model cannot generate the requested
  // images.
  void begin(const TrackedRun& run, const Task& task, const Model& model, const Log& log);

  // Adds to the next record, if configured, histograms of gradients before the update consumes
  // them, and of weights after it. Both are collective on steps with histograms.
  void capture_gradients(const Trainer& trainer);
  void capture_weights(const Trainer& trainer);
  // Samples images from the model. Collective. Throws InvalidLogits.
  void capture_images(const Model& model);
  void take_texts(std::vector<TextSample> texts) { texts_ = std::move(texts); }
  // Returns whether anything was added, the same on every rank.
  bool has_captured() const { return !histograms_.empty() || !images_.empty() || !texts_.empty(); }

  // Writes the step and what was added. Throws Failure on rank 0 if it cannot be written.
  void write(const StepMetrics& metrics);
  // Returns when everything written is on disk.
  void sync() const;

 private:
  void open_files(const TrackedRun& run);
  void open_lines(const std::filesystem::path& path,
                  const JsonlFormat& kind,
                  std::int64_t first_step,
                  bool is_written);
  bool has_histograms(std::int64_t step) const;
  std::vector<PngImage> sample_images(const Model& model, std::int64_t samples) const;

  const RunConfig& settings_;
  const RunDirectory& directory_;
  Communicator world_;
  std::unique_ptr<PrometheusEndpoint> endpoint_;  // until `begin`, then among the sinks
  std::vector<std::unique_ptr<MetricsSink>> sinks_;
  LabelSet labels_;  // of the samples
  std::optional<ImageShape> image_;
  std::vector<NamedHistogram> histograms_;
  std::vector<NamedImage> images_;
  std::vector<TextSample> texts_;
};

}  // namespace longspan
