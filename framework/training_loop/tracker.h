// Who is told of the steps of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/config/run_config.h"
#include "framework/tracking/jsonl_file.h"
#include "framework/tracking/metrics_record.h"
#include "framework/tracking/prometheus_endpoint.h"
#include "framework/tracking/tensorboard.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/run_directory.h"
#include "framework/training_loop/step_metrics.h"

namespace longspan {

// Writes metrics.jsonl, and what else the section `metrics` asks for: all that a run tells of its
// steps beside the log. Rank 0 writes; what is collective says so.
class Tracker {
 public:
  // Collective. Opens the endpoint for Prometheus where there is to be one: throws
  // ConfigurationError on every rank where that cannot be.
  Tracker(const RunConfig& settings, const RunDirectory& directory, const Communicator& world);

  // Collective. Opens the files, which go on from the run's first step; later steps that they tell
  // of are cut off, also off files that this run does not write. Throws DataError and Failure as
  // JsonlFile and TensorBoardFiles do, and ConfigurationError where the model cannot draw the
  // images that are asked for.
  void begin(const TrackedRun& run, const Task& task, const Model& model, const Log& log);

  // What the next record is to have beside the numbers of a step, where it is asked for: gradients
  // before the update that uses them up, and weights after it. Both are collective, on steps that
  // have histograms.
  void capture_gradients(const Trainer& trainer);
  void capture_weights(const Trainer& trainer);
  // Collective. Images that the model draws. Throws InvalidLogits.
  void take_images(const Model& model);
  void take_texts(std::vector<TextSample> texts) { texts_ = std::move(texts); }
  // Whether something was taken: the same on every rank.
  bool has_taken() const { return !histograms_.empty() || !images_.empty() || !texts_.empty(); }

  // The step, with what was taken. Throws Failure on rank 0 where it cannot be written.
  void write(const StepMetrics& metrics);
  // Returns when all that was written is on the disk.
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
  LabelSet labels_;  // of what is drawn
  std::optional<ImageShape> image_;
  std::vector<NamedHistogram> histograms_;
  std::vector<NamedImage> images_;
  std::vector<TextSample> texts_;
};

}  // namespace longspan
