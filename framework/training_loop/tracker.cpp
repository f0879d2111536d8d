#include "framework/training_loop/tracker.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/span.h"
#include "framework/tasks/labeled_task.h"

namespace longspan {
namespace {

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Failure("{}: cannot be created: {}", folder.string(), error.message());
}

}  // namespace

Tracker::Tracker(const RunConfig& settings,
                 const RunDirectory& directory,
                 const Communicator& world)
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
  if (options.tensorboard && options.images > 0 && settings_.task_kind().generate_images) {
    Scalars of_data;
    task.save(of_data);
    labels_ = labels_of(of_data, settings_.run.directory.text());
    image_ = task.image();
    // Reports unsupported images now, not at the first validation.
    try {
      sample_images(model, 0);
    } catch (const ConfigurationError& error) {
      throw ConfigurationError("metrics.num_images: {}", error.what());
    }
  }
  if (world_.rank() != 0) return;
  open_files(run);
  if (!endpoint_) return;
  log.info(
      "Prometheus endpoint: port {} of {}", options.prometheus_port, options.prometheus_address);
  endpoint_->begin(run);
  sinks_.push_back(std::move(endpoint_));
}

void Tracker::open_files(const TrackedRun& run) {
  const MetricsOptions& options = settings_.metrics;
  open_lines(directory_.metrics(), metrics_lines(), run.first_step, true);
  open_lines(directory_.samples(), samples_lines(), run.first_step, options.samples > 0);
  if (!options.exports.empty()) make_folder(directory_.exports());
  const std::map<std::string, JsonlFormat> services = {{"wandb", wandb_lines()},
                                                       {"mlflow", mlflow_lines()}};
  for (const auto& [service, lines] : services)
    open_lines(directory_.exports() / (service + ".jsonl"),
               lines,
               run.first_step,
               std::ranges::count(options.exports, service) > 0);
  if (options.tensorboard)
    sinks_.push_back(std::make_unique<TensorBoardFiles>(directory_.tensorboard(), run));
  else if (run.first_step > 0)
    truncate_events(directory_.tensorboard(), run.first_step);
}

// Truncates also files that only an earlier part of the run wrote. They must not contain steps that
// the run repeats, as a later part may write them again. In a new run's directory such a file is
// not ours.
void Tracker::open_lines(const std::filesystem::path& path,
                         const JsonlFormat& kind,
                         std::int64_t first_step,
                         bool is_written) {
  std::error_code error;
  if (!is_written && (first_step == 0 || !std::filesystem::exists(path, error))) return;
  auto file = std::make_unique<JsonlFile>(path, first_step, kind);
  if (is_written) sinks_.push_back(std::move(file));
}

bool Tracker::has_histograms(std::int64_t step) const {
  const MetricsOptions& options = settings_.metrics;
  return options.tensorboard && options.histograms > 0 && step % options.histograms == 0;
}

void Tracker::capture_gradients(const Trainer& trainer) {
  if (!has_histograms(trainer.steps())) return;
  const Span span({.name = "histograms of gradients"});
  histograms_ = all_reduce_histograms(
      own_gradient_histograms(trainer.model().parameters(), trainer.scale()), world_);
}

void Tracker::capture_weights(const Trainer& trainer) {
  if (!has_histograms(trainer.steps())) return;
  const Span span({.name = "histograms of weights"});
  for (auto& each :
       all_reduce_histograms(own_weight_histograms(trainer.model().parameters()), world_))
    histograms_.push_back(std::move(each));
}

std::vector<PngImage> Tracker::sample_images(const Model& model, std::int64_t samples) const {
  const bool reads_sources = model.body().end().source_image.has_value();
  const ConfigPath& validation = settings_.data.validation;
  return settings_.task_kind()
      .generate_images({.model = model,
                        .labels = labels_,
                        .image = *image_,
                        .samples = samples,
                        .upscale = reads_sources ? validation : ConfigPath(),
                        .seed = static_cast<std::uint64_t>(settings_.run.seed)})
      .images;
}

void Tracker::capture_images(const Model& model) {
  if (!image_) return;
  const std::vector<PngImage> drawn = sample_images(model, settings_.metrics.images);
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
  record.texts = std::exchange(texts_, {});
  for (const auto& sink : sinks_) sink->write(record);
}

void Tracker::sync() const {
  for (const auto& sink : sinks_) sink->sync();
}

}  // namespace longspan
