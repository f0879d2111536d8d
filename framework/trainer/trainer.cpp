#include "framework/trainer/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/forward_context.h"
#include "framework/optim/parameter_state.h"
#include "framework/trainer/recurrent_state_io.h"

namespace longspan {
namespace {

// Returns the factor of a term in the loss: weight / count. `repeated`: how often values that count
// once occur, over microbatches and over ranks that are summed.
double weight_of(const LossTerm& term,
                 const std::map<std::string, double, std::less<>>& counts,
                 double repeated) {
  if (term.count.empty()) return term.weight / repeated;
  const auto count = counts.find(term.count);
  require(count != counts.end(), "the batch has no count `{}`", term.count);
  return term.weight / std::max(count->second, 1.0);
}

// Adds the losses and metrics of another chunk of the same microbatch.
template <typename PartLoss>
void add(PartLoss& sum, PartLoss&& more) {
  if (sum.terms.empty()) {
    sum = std::move(more);
    return;
  }
  require(sum.terms.size() == more.terms.size() && sum.watched.size() == more.watched.size(),
          "the chunks of a sequence have different loss terms");
  for (std::size_t i = 0; i < sum.losses.size(); ++i) {
    const Tensor& total = sum.losses[i].value();
    on(total.device(),
       [&](auto backend) { accumulate(backend, 1.0, more.losses[i].value(), total); });
  }
  for (std::size_t i = 0; i < sum.watched.size(); ++i) {
    sum.watched[i].sum += more.watched[i].sum;
    sum.watched[i].largest = std::max(sum.watched[i].largest, more.watched[i].largest);
  }
}

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
      carried_(static_cast<std::size_t>(options.accumulation)),
      next_carried_(carried_.size()) {
  if (model_->parameters().compute_dtype() == DType::f16) loss_scale_.emplace(precision.loss_scale);
}

// Recomputed only on change, because it is copied to the device.
const Tensor& Trainer::seed() {
  const Parameters& parameters = model_->parameters();
  if (!seed_.defined() || seed_scale_ != scale()) {
    seed_scale_ = scale();
    const DType dtype = accumulator_of(parameters.compute_dtype());
    const Device& device = parameters.device();
    seed_ = copy_async(Tensor::scalar(seed_scale_, dtype, device.host()), device);
  }
  return seed_;
}

// Collective. Counts over the global batch, before the backward pass.
Trainer::Counts Trainer::count(const Batch& batch) const {
  const Span span({.name = "counting"});
  std::vector<double> numbers;
  for (const auto& [name, here] : batch.counts) numbers.push_back(static_cast<double>(here));
  const Tensor sums = Tensor::from<double>(
      numbers, {std::ssize(numbers)}, model_->parameters().device().host(), MemoryTag::workspace);
  mesh().data.all_reduce(sums, Reduction::sum);
  Counts counts;
  for (std::size_t i = 0; const auto& [name, here] : batch.counts)
    counts[name] = sums.span<double>()[i++];
  return counts;
}

double Trainer::repeated() const {
  return static_cast<double>(std::ssize(carried_) * mesh().data.size() * mesh().context.size());
}

ModelInput Trainer::reading_of(const Batch& batch, std::size_t part) const {
  const std::int64_t rows = batch.rows() / std::ssize(carried_);
  const std::int64_t begin = rows * static_cast<std::int64_t>(part);
  return {.fields = rows_of(batch.fields, begin, begin + rows),
          .carried = batch.carried ? rows_of(*batch.carried, begin, begin + rows) : carried_[part],
          .max_mem_len = model_->body().max_mem_len()};
}

Trainer::PartLoss Trainer::losses_of(const ModelInput& reading,
                                     const Counts& counts,
                                     const ForwardContext& pass,
                                     RecurrentState* next) const {
  const Span span({.name = "forward"});
  Losses found = model_->losses(reading, pass);
  if (next) *next = std::move(found.carried);
  PartLoss result = {.terms = std::move(found.terms)};
  result.watched = std::move(found.watched);
  for (LossTerm& term : result.terms)
    result.losses.push_back(
        sum(std::exchange(term.values, {}), weight_of(term, counts, repeated())));
  return result;
}

// The losses remain on the device.
std::optional<Trainer::PartLoss> Trainer::run_part(const Batch& batch,
                                                   std::size_t part,
                                                   const Counts& counts,
                                                   const StepRequest& request) {
  const std::size_t parts = carried_.size();
  ModelInput reading = reading_of(batch, part);
  ForwardContext pass = {
      .training = true,
      .random = random_.child(static_cast<std::uint64_t>(steps_)),
      .step = steps_,
      .gradient_scale = scale(),
      .first_stream = batch.first_row + reading.rows() * static_cast<std::int64_t>(part),
      .reconstruction = reconstruction_};
  RecurrentState* const next = batch.carried ? nullptr : &next_carried_[part];
  const ChunkedSequence sequence = model_->chunked(reading);
  const auto chunks = static_cast<std::size_t>(sequence.count());
  const std::shared_ptr<KVCache> cache = model_->sequence_cache(reading, true);
  if (chunks == 1) {
    pass.kv_cache = cache;
    return run_backward(reading, counts, pass, next, part, parts);
  }
  // All chunks attend to the same encoder outputs, which accumulate a gradient.
  std::vector<Variable> encoded;
  reading.encoder_outputs = model_->encode(reading, pass);
  for (EncoderOutput& output : reading.encoder_outputs) {
    if (!output.rows.requires_grad()) continue;
    encoded.push_back(output.rows);
    const Tensor& rows = output.rows.value();
    const DType dtype = accumulator_of(rows.dtype());
    output.rows = Variable::leaf(
        rows, dtype, Tensor::empty(rows.shape(), dtype, rows.device(), MemoryTag::activations));
    output.rows.zero_gradient();
  }
  const std::size_t passes = chunks + (encoded.empty() ? 0 : 1);
  pass.kv_cache = cache;
  ChunkProgress progress = {.chunks = sequence.count() - 1,
                            .part = static_cast<std::int64_t>(part) + 1,
                            .parts = static_cast<std::int64_t>(parts)};
  for (std::int64_t chunk = 0; chunk + 1 < sequence.count(); ++chunk) {
    pass.kv_cache->start_chunk(chunk);
    model_->compute_states(reading, pass);
    progress.chunk = chunk + 1;
    if (request.after_chunk) request.after_chunk(progress);
    if (poll_stop(request)) return std::nullopt;
  }
  progress.is_backward = true;
  progress.chunks = sequence.count();
  // From the last chunk to the first one, which receives the gradients of the states in between.
  PartLoss result;
  for (std::size_t i = 0; i < chunks; ++i) {
    pass.kv_cache->start_chunk(static_cast<std::int64_t>(chunks - 1 - i));
    add(result,
        run_backward(
            reading, counts, pass, i == 0 ? next : nullptr, part * passes + i, parts * passes));
    progress.chunk = static_cast<std::int64_t>(i) + 1;
    if (request.after_chunk) request.after_chunk(progress);
    if (i + 1 < chunks && poll_stop(request)) return std::nullopt;
  }
  if (encoded.empty()) return result;
  std::vector<Tensor> gradients;
  for (const EncoderOutput& output : reading.encoder_outputs)
    if (output.rows.requires_grad())
      gradients.push_back(
          cast(Variable(output.rows.gradient()), output.rows.value().dtype()).value());
  run_backward(encoded, std::move(gradients), part * passes + chunks, parts * passes);
  return result;
}

bool Trainer::poll_stop(const StepRequest& request) const {
  if (!request.stop) return false;
  const std::int64_t asked = request.stop() ? 1 : 0;
  return mesh().world.all_reduce(asked, Reduction::maximum) == 1;
}

Trainer::PartLoss Trainer::run_backward(const ModelInput& reading,
                                        const Counts& counts,
                                        const ForwardContext& given,
                                        RecurrentState* next,
                                        std::size_t index,
                                        std::size_t count) {
  ForwardContext pass = given;
  pass.layer_losses = std::make_shared<LayerLossCollector>(seed(), 1 / repeated());
  PartLoss found = losses_of(reading, counts, pass, next);
  std::vector<Variable> values;
  for (const Variable& loss : found.losses) values.emplace_back(loss.value());
  std::vector<Tensor> seeds(found.losses.size(), seed());
  run_backward(std::exchange(found.losses, std::move(values)), std::move(seeds), index, count);
  return found;
}

void Trainer::run_backward(std::vector<Variable> roots,
                           std::vector<Tensor> gradients,
                           std::size_t index,
                           std::size_t count) {
  reduction_.begin(index, count);
  {
    const Span span({.name = "backward"});
    backward(roots, std::move(gradients), {.between = [this] { reduction_.progress(); }});
  }
  const Span span({.name = "rest of the reduction"});
  reduction_.finish();
}

Trainer::Sums Trainer::all_reduce_sums(const std::vector<PartLoss>& parts,
                                       const StepRequest& request) const {
  const Span span({.name = "loss and norm"});
  const ProcessMesh& all = mesh();
  const bool counts = all.tensor.rank() == 0;
  const Device& device = model_->parameters().device();
  const std::size_t terms = parts.front().losses.size();
  // Queues all work before the only GPU synchronization, which decides whether the step changes
  // anything.
  const auto losses = static_cast<std::int64_t>(parts.size() * terms);
  const Tensor found = Tensor::empty({losses + 1}, DType::f64, device, MemoryTag::workspace);
  for (std::int64_t i = 0; const PartLoss& part : parts)
    for (const Variable& loss : part.losses) {
      on(device,
         [&](auto backend) { longspan::scale(backend, 1, loss.value(), found.slice(i, i + 1)); });
      ++i;
    }
  sum_squared_gradients(model_->parameters(), found.slice(losses, losses + 1));
  const Tensor here = found.to_host();
  const auto numbers = here.span<double>();
  std::vector<double> mine(terms, 0.0);
  if (counts)
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i) mine[i % terms] += numbers[i];
  const bool stop = request.stop && request.stop();
  mine.insert(mine.end(), {numbers.back(), stop ? 1.0 : 0.0, request.writing ? 1.0 : 0.0});
  const Tensor sums =
      Tensor::from<double>(mine, {std::ssize(mine)}, device.host(), MemoryTag::workspace);
  all.world.all_reduce(sums, Reduction::sum);
  const auto values = sums.span<double>();
  const auto rest = values.subspan(terms);
  return {{values.begin(), values.begin() + static_cast<std::ptrdiff_t>(terms)},
          rest[0],
          rest[1],
          rest[2]};
}

std::vector<AuxiliaryMetricResult> Trainer::auxiliary_metrics(const std::vector<PartLoss>& parts,
                                                              const Counts& counts) const {
  std::vector<AuxiliaryMetricResult> results;
  for (std::size_t i = 0; i < parts.front().watched.size(); ++i) {
    double sum = 0;
    double largest = 0;
    for (const PartLoss& part : parts) {
      sum += mesh().tensor.rank() == 0 ? part.watched[i].sum : 0.0;
      largest = std::max(largest, part.watched[i].largest);
    }
    const AuxiliaryMetric& watched = parts.front().watched[i];
    const auto count = counts.find(watched.count);
    require(count != counts.end(), "the batch has no count `{}`", watched.count);
    results.push_back({watched.name,
                       mesh().world.all_reduce(sum, Reduction::sum) / std::max(count->second, 1.0),
                       mesh().world.all_reduce(largest, Reduction::maximum)});
  }
  return results;
}

StepResult Trainer::compute(const Batch& batch, const StepRequest& request) {
  const Counts counts = count(batch);
  StepResult result;
  if (const auto tokens = counts.find("tokens"); tokens != counts.end())
    result.tokens = static_cast<std::int64_t>(tokens->second);
  model_->parameters().clear_gradients();
  reconstruction_ = request.measure ? std::make_shared<ReconstructionError>() : nullptr;
  std::vector<PartLoss> losses;
  for (std::size_t part = 0; part < carried_.size(); ++part) {
    std::optional<PartLoss> found = run_part(batch, part, counts, request);
    if (!found) {
      result.stop_requested = result.is_discarded = true;
      return result;
    }
    losses.push_back(std::move(*found));
  }
  const Sums sums = all_reduce_sums(losses, request);
  for (std::size_t i = 0; i < sums.losses.size(); ++i) {
    const LossTerm& term = losses.front().terms[i];
    result.loss += sums.losses[i];
    if (term.weight != 0)
      result.terms.push_back({term.name, clear_nan_sign(sums.losses[i] / term.weight)});
  }
  result.watched = auxiliary_metrics(losses, counts);
  result.loss = clear_nan_sign(result.loss);
  result.gradient_norm = clear_nan_sign(std::sqrt(sums.squared_norm) / scale());
  if (loss_scale_) result.loss_scale = loss_scale_->value();
  if (request.measure)
    result.reconstruction_error =
        reconstruction_->largest(mesh().world, model_->parameters().device());
  result.stop_requested = sums.stops > 0;
  result.writing = sums.writing > 0;
  result.skipped = !std::isfinite(result.loss) || !std::isfinite(result.gradient_norm);
  result.overflowed = result.skipped && std::isfinite(result.loss) && loss_scale_ &&
                      loss_scale_->value() > LossScaler::least;
  return result;
}

// Like a skipped step, but not counted.
StepResult Trainer::probe_step(const Batch& given) {
  StepResult result = compute(
      model_->body().prepared(given, random_.child(static_cast<std::uint64_t>(steps_))), {});
  model_->parameters().end_step(false);
  next_carried_.assign(carried_.size(), {});
  return result;
}

bool Trainer::has_finite_weights() const {
  const Parameters& parameters = model_->parameters();
  const Tensor total = Tensor::empty({1}, DType::f64, parameters.device(), MemoryTag::workspace);
  sum_squared_weights(parameters, total);
  return std::isfinite(mesh().world.all_reduce(total.to_host().item(), Reduction::sum));
}

StepResult Trainer::step(const Batch& given, const StepRequest& request) {
  const Batch batch =
      model_->body().prepared(given, random_.child(static_cast<std::uint64_t>(steps_)));
  const std::int64_t parts = std::ssize(carried_);
  require(
      batch.rows() % parts == 0, "expected a multiple of {} rows, found {}", parts, batch.rows());
  std::vector<RecurrentState> before = carried_;
  if (batch.resets_state) carried_.assign(carried_.size(), {});
  StepResult result = compute(batch, request);
  if (result.is_discarded) {
    carried_ = std::move(before);
    model_->parameters().end_step(false);
    next_carried_.assign(carried_.size(), {});
    return result;
  }
  result.learning_rate = optimizer_.learning_rate(schedule_.at(optimizer_.updates() + 1));
  if (request.after_loss)
    request.after_loss(result.can_continue() ? result.loss
                                             : std::numeric_limits<double>::quiet_NaN());
  model_->parameters().set_steps(++steps_);
  tokens_ += result.tokens;
  if (!result.skipped) {
    if (request.before_update) request.before_update();
    const Span span({.name = "update"});
    optimizer_.update(result.learning_rate,
                      clip_factor(result.gradient_norm, options_.clip_norm) / scale());
  }
  model_->parameters().end_step(!result.skipped);
  // Gradients may overflow while the recurrent state is finite; the next batch continues from it.
  if (std::isfinite(result.loss) && !batch.carried) carried_.swap(next_carried_);
  next_carried_.assign(carried_.size(), {});
  if (loss_scale_) loss_scale_->update(!result.skipped);
  check_divergence(batch, result);
  return result;
}

void Trainer::check_divergence(const Batch& batch, const StepResult& result) {
  if (!result.skipped) {
    skipped_in_a_row_ = 0;
    return;
  }
  ++skipped_;
  if (result.overflowed) return;
  ++skipped_in_a_row_;
  if (skipped_in_a_row_ < options_.consecutive_skips) return;
  if (result.loss_scale && std::isfinite(result.loss))
    throw DivergedError(
        "training diverged: {} had gradients that overflow float16 at loss scale "
        "1; the last is step {} (loss {}); set precision.compute_dtype to bfloat16 or float32",
        pluralize(skipped_in_a_row_, "consecutive step"),
        steps_,
        result.loss);
  throw DivergedError(
      "training diverged: {} had a non-finite loss or gradient; "
      "the last is step {} (loss {}, grad norm {}, batch {}); {}",
      pluralize(skipped_in_a_row_, "consecutive step"),
      steps_,
      result.loss,
      result.gradient_norm,
      batch.place,
      divergence_advice(options_));
}

void Trainer::save(TrainingState& state, const CursorRows& rows) const {
  TrainingState weights = weights_state(model_->parameters());
  for (StateTensor& tensor : weights.tensors) state.tensors.push_back(std::move(tensor));
  optimizer_.add_to(state);
  optimizer_.save(state.scalars);
  std::int64_t first = rows.begin;
  for (const RecurrentState& part : carried_) {
    save_recurrent_state(state, part, first, rows.total, model_->parameters());
    if (!part.tensors.empty()) first += part.tensors.front().tensor.shape()[0];
  }
  if (loss_scale_) loss_scale_->save(state.scalars);
  state.scalars.set("trainer/steps", steps_);
  state.scalars.set("trainer/num_skipped", skipped_);
  state.scalars.set("trainer/consecutive_skips", skipped_in_a_row_);
  state.scalars.set("trainer/tokens", tokens_);
}

void Trainer::restore(const Checkpoint& checkpoint, const CursorRows& rows, std::int64_t count) {
  optimizer_.check_compatible(checkpoint);
  steps_ = checkpoint.scalars().get<std::int64_t>("trainer/steps");
  model_->parameters().set_steps(steps_);
  check_ended(checkpoint, model_->parameters());
  const std::vector<std::string> names = model_->body().recurrent_state_names();
  const std::vector<RecurrentStateSpec> specs = model_->recurrent_states();
  const Device& device = model_->parameters().device();
  const std::int64_t streams = count / std::ssize(carried_);
  for (RecurrentState& part : carried_) {
    if (!specs.empty()) part = allocate_recurrent_state(checkpoint, specs, streams, device);
    if (model_->body().max_mem_len() > 0)
      part = allocate_recurrent_state(checkpoint, names, streams, mesh(), device);
  }
  TrainingState state;
  save(state, rows);
  checkpoint.read(std::span<const StateTensor>(state.tensors));
  const Scalars& scalars = checkpoint.scalars();
  optimizer_.restore(scalars);
  if (loss_scale_) loss_scale_->restore(scalars);
  skipped_ = scalars.get<std::int64_t>("trainer/num_skipped");
  skipped_in_a_row_ = scalars.get<std::int64_t>("trainer/consecutive_skips");
  tokens_ = scalars.get<std::int64_t>("trainer/tokens");
  for (RecurrentState& part : carried_) cast_recurrent_state(part, model_->parameters());
  model_->parameters().refresh_compute();
  optimizer_.use_train_weights();
}

std::string divergence_advice(const TrainingOptions& options) {
  return fmt::format(
      "set a smaller training.learning_rate (now {}) or {} training.max_grad_norm (now {})",
      options.learning_rate,
      options.clip_norm > 0 ? "a smaller" : "clip the gradients with",
      options.clip_norm > 0 ? fmt::format("{}", options.clip_norm) : "0: no clipping");
}

std::string resume_hint(const std::filesystem::path& checkpoints, const std::string& resume) {
  const std::vector<std::int64_t> steps = steps_in(checkpoints);
  const bool is_named = resume != "auto" && resume != "never";
  if (steps.empty() && is_named)
    return fmt::format("no checkpoint was saved; run the same command to resume from {}", resume);
  if (steps.empty()) return "no checkpoint was saved; run the same command to restart";
  const auto path = [&](std::int64_t step) { return (checkpoints / step_name(step)).string(); };
  std::string clause = fmt::format("run the same command{} to resume from {}",
                                   resume == "auto" ? "" : " with checkpoint.resume_from: auto",
                                   path(steps.back()));
  if (steps.size() > 1)
    clause += fmt::format(
        "; to resume from an earlier one, set checkpoint.resume_from to it, such "
        "as {}, and set another run.output_dir",
        path(steps[steps.size() - 2]));
  return clause;
}

void check_reconstruction_error(std::int64_t step, double error, double bound) {
  // NaN exceeds the bound as well.
  if (error <= bound) return;
  throw DivergedError(
      "step {}: reversible reconstruction error {:.2e} exceeds memory.reconstruction_tolerance = "
      "{}; resume from an earlier checkpoint with a smaller training.learning_rate, use fewer "
      "layers, or set precision.compute_dtype to float64",
      step,
      error,
      bound);
}

}  // namespace longspan
