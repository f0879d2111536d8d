#include "framework/train/trainer.h"

#include <cmath>
#include <numeric>

#include "framework/autograd/ops.h"
#include "framework/core/queued_copy.h"
#include "framework/core/unsigned_nan.h"
#include "framework/kernels/elementwise.h"
#include "framework/train/divergence.h"
#include "framework/train/parameter_state.h"

namespace longspan {
namespace {

// Part i of the leading axis cut into `parts`.
Tensor rows(const Tensor& tensor, std::size_t part, std::size_t parts) {
  const std::int64_t count = tensor.shape()[0] / static_cast<std::int64_t>(parts);
  const std::int64_t begin = count * static_cast<std::int64_t>(part);
  return tensor.slice(begin, begin + count);
}

std::string memory_name(std::size_t layer) { return "memory/" + std::to_string(layer); }

}  // namespace

Trainer::Trainer(std::unique_ptr<Model> model,
                 const TrainingOptions& options,
                 const Random& random,
                 const PrecisionOptions& precision)
    : model_(std::move(model)),
      options_(options),
      random_(random),
      optimizer_(options.optimizer, model_->parameters()),
      reduction_(model_->parameters(), precision.gradient_reduction),
      schedule_(options.make_schedule()),
      memory_(static_cast<std::size_t>(options.accumulation)),
      next_memory_(memory_.size()) {
  if (model_->parameters().compute_dtype() == DType::f16) loss_scale_.emplace(precision.loss_scale);
}

// Made when it changes: it is copied to the device.
const Tensor& Trainer::seed() {
  const Parameters& parameters = model_->parameters();
  if (!seed_.defined() || seed_scale_ != scale()) {
    seed_scale_ = scale();
    const DType dtype = accumulator_of(parameters.compute_dtype());
    const Device& device = parameters.device();
    seed_ = queued_to(Tensor::scalar(seed_scale_, dtype, device.host()), device);
  }
  return seed_;
}

// Of the global batch that count.
std::int64_t Trainer::count_tokens(const Batch& batch) const {
  return mesh().data.all_reduce(batch.predicted_tokens, Reduction::sum);
}

Segment Trainer::segment_of(const Batch& batch, std::size_t part) const {
  const std::size_t parts = memory_.size();
  return {.tokens = rows(batch.tokens, part, parts),
          .targets = rows(batch.targets, part, parts),
          .memory = memory_[part],
          .longest_memory = model_->longest_memory()};
}

// The loss, on the device.
Tensor Trainer::run_part(const Batch& batch, std::size_t part, double weight) {
  const std::size_t parts = memory_.size();
  const Segment segment = segment_of(batch, part);
  const std::int64_t streams = segment.tokens.shape()[0];
  const Pass pass = {.training = true,
                     .random = random_.child(static_cast<std::uint64_t>(steps_)),
                     .first_stream = batch.first_stream + streams * static_cast<std::int64_t>(part),
                     .reconstruction = reconstruction_};
  SegmentResult result = model_->losses(segment, pass);
  next_memory_[part] = std::move(result.memory);
  const Variable loss = sum(result.losses, weight);
  const Tensor value = loss.value();
  result.losses = {};
  reduction_.begin(part, parts);
  backward({loss}, {seed()}, {.between = [this] { reduction_.progress(); }});
  reduction_.finish();
  return value;
}

Trainer::Sums Trainer::agree(const std::vector<Tensor>& losses, const StepRequest& request) const {
  const ProcessMesh& all = mesh();
  const bool counts = all.tensor.rank() == 0;
  const Device& device = model_->parameters().device();
  // All is queued before a GPU is waited for, once: a step that must change nothing is known by it.
  const auto parts = std::ssize(losses);
  const Tensor found = Tensor::empty({parts + 1}, DType::f64, device, MemoryTag::workspace);
  for (std::int64_t i = 0; i < parts; ++i)
    on(device, [&](auto backend) {
      longspan::scale(backend, 1, losses[static_cast<std::size_t>(i)], found.slice(i, i + 1));
    });
  sum_squared_gradients(model_->parameters(), found.slice(parts, parts + 1));
  const Tensor here = found.to_host();
  const auto numbers = here.span<double>();
  const double loss = std::accumulate(numbers.begin(), numbers.end() - 1, 0.0);
  const bool stop = request.stop && request.stop();
  const double mine[] = {
      counts ? loss : 0.0, numbers.back(), stop ? 1.0 : 0.0, request.writing ? 1.0 : 0.0};
  const Tensor sums = Tensor::from<double>(mine, {4}, device.host(), MemoryTag::workspace);
  all.world.all_reduce(sums, Reduction::sum);
  const auto values = sums.span<double>();
  return {values[0], values[1], values[2], values[3]};
}

double Trainer::loss_of(const Batch& batch) const {
  const NoGradient unrecorded;
  const double weight = 1.0 / static_cast<double>(std::max<std::int64_t>(count_tokens(batch), 1));
  double loss = 0;
  for (std::size_t part = 0; part < memory_.size(); ++part)
    loss += sum(model_->losses(segment_of(batch, part), Pass{}).losses, weight).value().item();
  return unsigned_nan(
      mesh().world.all_reduce(mesh().tensor.rank() == 0 ? loss : 0.0, Reduction::sum));
}

StepResult Trainer::step(const Batch& batch, const StepRequest& request) {
  const auto parts = static_cast<std::int64_t>(memory_.size());
  const std::int64_t streams = batch.tokens.shape()[0];
  require(streams % parts == 0, "{} streams do not divide into {} parts", streams, parts);
  first_stream_ = batch.first_stream;
  if (batch.epoch_start) memory_.assign(memory_.size(), {});
  StepResult result;
  result.tokens = count_tokens(batch);
  const double weight = 1.0 / static_cast<double>(std::max<std::int64_t>(result.tokens, 1));
  model_->parameters().clear_gradients();
  reconstruction_ = request.measure ? std::make_shared<ReconstructionError>() : nullptr;
  std::vector<Tensor> losses;
  for (std::size_t part = 0; part < memory_.size(); ++part)
    losses.push_back(run_part(batch, part, weight));
  const Sums sums = agree(losses, request);
  result.loss = unsigned_nan(sums.loss);
  result.gradient_norm = unsigned_nan(std::sqrt(sums.squared_norm) / scale());
  if (loss_scale_) result.loss_scale = loss_scale_->value();
  if (request.measure)
    result.reconstruction_error =
        reconstruction_->largest(mesh().world, model_->parameters().device());
  result.stop_requested = sums.stops > 0;
  result.writing = sums.writing > 0;
  result.skipped = !std::isfinite(result.loss) || !std::isfinite(result.gradient_norm);
  result.learning_rate = schedule_.at(optimizer_.updates() + 1);
  if (request.after_loss) request.after_loss(result.loss);
  ++steps_;
  tokens_ += result.tokens;
  if (!result.skipped) {
    if (request.before_update) request.before_update();
    optimizer_.update(result.learning_rate,
                      clip_factor(result.gradient_norm, options_.clip_norm) / scale());
  }
  // Gradients may overflow where what the layers remember does not: the next segment follows it.
  if (std::isfinite(result.loss)) memory_.swap(next_memory_);
  next_memory_.assign(memory_.size(), {});
  if (loss_scale_) loss_scale_->update(!result.skipped);
  judge(batch, result);
  return result;
}

void Trainer::judge(const Batch& batch, const StepResult& result) {
  if (!result.skipped) {
    skipped_in_a_row_ = 0;
    return;
  }
  ++skipped_;
  // A loss scale that is too large: the next steps have a smaller one.
  const bool gradients_overflowed = result.loss_scale && std::isfinite(result.loss);
  if (gradients_overflowed && *result.loss_scale > LossScale::least) return;
  ++skipped_in_a_row_;
  if (skipped_in_a_row_ < options_.skipped_in_a_row) return;
  if (gradients_overflowed)
    throw DivergedError(
        "training diverged: {} steps in a row had gradients that f16 cannot hold even at loss "
        "scale 1; the last is step {} (loss {}); set precision.compute to bf16 or float32",
        skipped_in_a_row_,
        steps_,
        result.loss);
  throw DivergedError(
      "training diverged: {} steps in a row had no finite loss and gradient; the last is step {} "
      "(loss {}, gradient norm {}), whose batch began at token {} of each stream in epoch {}; {}",
      skipped_in_a_row_,
      steps_,
      result.loss,
      result.gradient_norm,
      batch.position,
      batch.epoch,
      calmer_training(options_));
}

void Trainer::add_memory(TrainingState& state, std::int64_t streams) const {
  const bool owner = mesh().shape.sequence || mesh().tensor.rank() == 0;
  const std::int64_t rows = memory_length();
  // A memory is one run of rows.
  const Ranges held = divide_memory(mesh(), rows).outside();
  if (count_of(held) == 0) return;
  std::int64_t begin = first_stream_;
  for (const SegmentMemory& part : memory_) {
    for (std::size_t layer = 0; layer < part.layers.size(); ++layer) {
      const Tensor& piece = part.layers[layer];
      const Shape whole = piece.shape().with(0, streams).with(1, rows);
      state.add_box(memory_name(layer), piece, whole, {begin, held.front().begin, 0}, owner);
    }
    if (!part.layers.empty()) begin += part.layers.front().shape()[0];
  }
}

void Trainer::save(TrainingState& state, std::int64_t streams) const {
  TrainingState weights = weights_state(model_->parameters());
  for (StateTensor& tensor : weights.tensors) state.tensors.push_back(std::move(tensor));
  optimizer_.add_to(state);
  optimizer_.save(state.scalars);
  add_memory(state, streams);
  if (loss_scale_) loss_scale_->save(state.scalars);
  state.scalars.set("trainer/steps", steps_);
  state.scalars.set("trainer/skipped", skipped_);
  state.scalars.set("trainer/skipped_in_a_row", skipped_in_a_row_);
  state.scalars.set("trainer/tokens", tokens_);
}

void Trainer::restore(const Checkpoint& checkpoint,
                      const StreamRange& range,
                      std::int64_t streams) {
  optimizer_.judge(checkpoint);
  first_stream_ = range.begin;
  if (model_->longest_memory() > 0 && checkpoint.has(memory_name(0))) {
    const Shape saved = checkpoint.shape_of(memory_name(0));
    const auto parts = static_cast<std::int64_t>(memory_.size());
    const Shape piece = saved.with(0, range.count() / parts)
                            .with(1, count_of(divide_memory(mesh(), saved[1]).outside()));
    for (SegmentMemory& part : memory_) {
      part.layers.clear();
      part.all_rows = saved[1];
      for (std::int64_t layer = 0; layer < model_->memory_layers(); ++layer)
        part.layers.push_back(Tensor::empty(piece,
                                            checkpoint.dtype_of(memory_name(0)),
                                            model_->parameters().device(),
                                            MemoryTag::memory));
    }
  }
  TrainingState state;
  save(state, streams);
  checkpoint.read(std::span<const StateTensor>(state.tensors));
  const Scalars& scalars = checkpoint.scalars();
  optimizer_.restore(scalars);
  if (loss_scale_) loss_scale_->restore(scalars);
  steps_ = scalars.get<std::int64_t>("trainer/steps");
  skipped_ = scalars.get<std::int64_t>("trainer/skipped");
  skipped_in_a_row_ = scalars.get<std::int64_t>("trainer/skipped_in_a_row");
  tokens_ = scalars.get<std::int64_t>("trainer/tokens");
  for (SegmentMemory& part : memory_)
    for (Tensor& layer : part.layers)
      layer = cast(Variable(layer), model_->parameters().compute_dtype()).value();
  model_->parameters().refresh_compute();
}

}  // namespace longspan
