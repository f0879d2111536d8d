#include "framework/runs/tracker.h"

#include <fmt/format.h>

#include <system_error>

#include "framework/core/error.h"
#include "framework/tasks/labelled_task.h"
#include "framework/tracking/json_lines.h"
#include "framework/tracking/parameter_histograms.h"

namespace longspan {
namespace {

StepLineKind lines_for(const std::string& service) {
  return service == "wandb" ? wandb_lines() : mlflow_lines();
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Failure("{}: cannot be made: {}", folder.string(), error.message());
}

}  // namespace

Tracker::Tracker(const Settings& settings, const RunDirectory& directory, const Communicator& world)
    : settings_(settings), directory_(directory), world_(world) {
  const MetricsOptions& options = settings.metrics;
  std::string sentence;
  if (world.rank() == 0 && options.prometheus_port > 0) try {
      endpoint_ =
          std::make_unique<PrometheusEndpoint>(options.prometheus_address, options.prometheus_port);
    } catch (const ConfigurationError& error) {
      sentence = error.what();
    }
  sentence = world.broadcast(sentence, 0);
  if (!sentence.empty()) throw ConfigurationError("{}", sentence);
}

void Tracker::begin(const TrackedRun& run, const Task& task, const Model& model, const Log& log) {
  const MetricsOptions& options = settings_.metrics;
  if (options.tensorboard && options.images > 0 && settings_.task_kind().draw) {
    Scalars of_data;
    task.save(of_data);
    labels_ = labels_of(of_data, settings_.run.directory.text());
    image_ = task.image();
    // What it cannot draw is told now and not at the first validation.
    try {
      draw(model, 0);
    } catch (const ConfigurationError& error) {
      throw ConfigurationError("metrics.images: {}", error.what());
    }
  }
  if (world_.rank() != 0) return;
  sinks_.push_back(
      std::make_unique<StepLines>(directory_.metrics(), run.first_step, metrics_lines()));
  if (!options.exports.empty()) make_folder(directory_.exports());
  for (const std::string& service : options.exports)
    sinks_.push_back(std::make_unique<StepLines>(
        directory_.exports() / (service + ".jsonl"), run.first_step, lines_for(service)));
  if (options.tensorboard)
    sinks_.push_back(std::make_unique<TensorBoardFiles>(directory_.tensorboard(), run));
  if (!endpoint_) return;
  log.info("Prometheus finds the newest numbers at port {} of {}",
           options.prometheus_port,
           options.prometheus_address);
  endpoint_->begin(run);
  sinks_.push_back(std::move(endpoint_));
}

bool Tracker::has_histograms(std::int64_t step) const {
  const MetricsOptions& options = settings_.metrics;
  return options.tensorboard && options.histograms > 0 && step % options.histograms == 0;
}

void Tracker::take_gradients(const Trainer& trainer) {
  if (!has_histograms(trainer.steps())) return;
  histograms_ =
      summed(own_gradient_histograms(trainer.model().parameters(), trainer.scale()), world_);
}

void Tracker::take_weights(const Trainer& trainer) {
  if (!has_histograms(trainer.steps())) return;
  for (auto& each : summed(own_weight_histograms(trainer.model().parameters()), world_))
    histograms_.push_back(std::move(each));
}

std::vector<PngImage> Tracker::draw(const Model& model, std::int64_t samples) const {
  return settings_.task_kind().draw({.model = model,
                                     .labels = labels_,
                                     .image = *image_,
                                     .samples = samples,
                                     .seed = static_cast<std::uint64_t>(settings_.run.seed)});
}

void Tracker::take_images(const Model& model) {
  if (!image_) return;
  const std::vector<PngImage> drawn = draw(model, settings_.metrics.images);
  for (std::size_t i = 0; i < drawn.size(); ++i)
    images_.push_back({.name = fmt::format("samples/{}", i),
                       .width = drawn[i].shape.width,
                       .height = drawn[i].shape.height,
                       .channels = drawn[i].shape.channels,
                       .png = world_.rank() == 0 ? png_of(drawn[i]) : ""});
}

void Tracker::write(const StepMetrics& metrics) {
  MetricsRecord record = record_of(metrics);
  record.histograms = std::exchange(histograms_, {});
  record.images = std::exchange(images_, {});
  for (const auto& sink : sinks_) sink->write(record);
}

void Tracker::sync() const {
  for (const auto& sink : sinks_) sink->sync();
}

}  // namespace longspan
