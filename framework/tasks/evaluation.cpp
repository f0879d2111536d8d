#include "framework/tasks/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "framework/core/shape.h"
#include "framework/core/span.h"
#include "framework/data/corpus/stream_reader.h"
#include "framework/kernels/element.h"
#include "framework/nn/attention/kv_cache.h"

namespace longspan {
namespace {

std::int64_t memory_of(const Model& model, const EvaluationOptions& options) {
  if (options.memory.value_or(0) > 0 && model.body().recurrent_state_names().empty())
    throw ConfigurationError("the model does not support mem_len > 0, found {}", *options.memory);
  return options.memory.value_or(model.body().max_mem_len());
}

// Loss sums of this rank's streams, each summed separately.
class LossSums {
 public:
  void add(const std::vector<double>& values, const Batch& batch) {
    first_stream_ = batch.first_row;
    const auto rows = static_cast<std::size_t>(batch.rows());
    sums_.resize(rows);
    const std::size_t time = values.size() / rows;
    for (std::size_t i = 0; i < values.size(); ++i) sums_[i / time] += values[i];
  }

  // Returns the sum over all ranks, in stream order.
  double total(std::int64_t streams, const ProcessMesh& mesh, const Device& device) const {
    const Tensor all = Tensor::zeros({streams}, DType::f64, device, MemoryTag::workspace);
    const auto values = all.span<double>();
    for (std::size_t i = 0; i < sums_.size(); ++i)
      values[static_cast<std::size_t>(first_stream_) + i] = sums_[i];
    mesh.replicas.all_reduce(all, Reduction::sum);
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }

 private:
  std::int64_t first_stream_ = 0;
  std::vector<double> sums_;
};

// Reads the corpus batch by batch and accumulates the result.
class Evaluation {
 public:
  Evaluation(const Model& model, const Corpus& corpus, const EvaluationOptions& options)
      : mesh_(model.parameters().mesh()),
        device_(model.parameters().device().host()),
        streams_(options.streams),
        path_(corpus.path()),
        size_(corpus.bytes()),
        listener_(options.listener),
        unknown_nats_(corpus.tokenizer().unknown_nats()),
        reader_(corpus,
                {options.streams, options.segment},
                mesh_.data.rank(),
                mesh_.data.size(),
                device_,
                options.tokens_per_stream,
                options.reset_attention_mask),
        by_position_(
            options.position_parts,
            std::min(options.segment, (corpus.tokens() + options.streams - 2) / options.streams)) {
    if (corpus.tokenizer().has_unknown()) result_.unknown = 0;
  }

  // Reads the next batch of the streams. Returns false at the end.
  bool next(Batch& batch) {
    if (reader_.done()) return false;
    batch = reader_.next();
    const double share = static_cast<double>(passes_) / static_cast<double>(reader_.batches());
    if (listener_ && passes_ > 0)
      listener_({path_, static_cast<std::int64_t>(share * static_cast<double>(size_)), size_});
    ++passes_;
    result_.tokens += batch.count("tokens");
    result_.bytes += batch.count("bytes");
    if (result_.unknown)
      *result_.unknown +=
          std::ranges::count(batch.field("targets").span<std::int64_t>(), Tokenizer::unknown_id);
    return true;
  }

  // `time`: the positions of the losses.
  void add(const Losses& losses, const Batch& batch, const SequenceShard& time) {
    const std::vector<double> values = row_losses(losses);
    sums_.add(values, batch);
    positions_ += std::ssize(values);
    if (by_position_.wanted()) by_position_.add(values, batch.field("targets"), time.inside());
    result_.watched.resize(losses.watched.size());
    for (std::size_t i = 0; i < losses.watched.size(); ++i) {
      AuxiliaryMetric& all = result_.watched[i];
      const AuxiliaryMetric& here = losses.watched[i];
      all = {here.name, all.sum + here.sum, std::max(all.largest, here.largest), here.count};
    }
  }

  EvaluationResult finish() {
    result_.nats = clear_nan_sign(sums_.total(streams_, mesh_, device_));
    result_.tokens = mesh_.data.all_reduce(result_.tokens, Reduction::sum);
    result_.bytes = mesh_.data.all_reduce(result_.bytes, Reduction::sum);
    if (result_.tokens == 0)
      throw DataError("{}: expected a document of at least 2 tokens, found none", path_);
    if (result_.unknown) {
      result_.unknown = mesh_.data.all_reduce(*result_.unknown, Reduction::sum);
      result_.nats += static_cast<double>(*result_.unknown) * unknown_nats_;
    }
    // Overlapping windows read a position several times, so means count all reads.
    const std::int64_t positions = mesh_.replicas.all_reduce(positions_, Reduction::sum);
    const double share = static_cast<double>(result_.tokens) / static_cast<double>(positions);
    for (AuxiliaryMetric& watched : result_.watched) {
      watched.sum = share * mesh_.replicas.all_reduce(watched.sum, Reduction::sum);
      watched.largest = mesh_.replicas.all_reduce(watched.largest, Reduction::maximum);
    }
    if (by_position_.wanted()) result_.by_position = by_position_.means(mesh_);
    result_.seconds = stopwatch_.seconds();
    return result_;
  }

 private:
  ProcessMesh mesh_;
  Device device_;
  std::int64_t streams_;
  std::string path_;
  std::int64_t size_;
  ProgressCallback listener_;
  std::int64_t passes_ = 0;
  std::int64_t positions_ = 0;  // read by this rank, in all passes
  double unknown_nats_;
  EvaluationReader reader_;
  PositionLosses by_position_;
  LossSums sums_;
  EvaluationResult result_;
  Stopwatch stopwatch_;
};

// The last `longest` tokens of each stream.
class Windows {
 public:
  Windows(std::int64_t longest, const Device& device)
      : longest_(static_cast<std::size_t>(longest)), device_(device) {}

  // Appends one column of the batch.
  void push(const Batch& batch, std::int64_t column) {
    const std::int64_t rows = batch.rows();
    streams_.resize(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      auto& stream = streams_[static_cast<std::size_t>(row)];
      if (stream.size() == longest_) stream.erase(stream.begin());
      const auto tokens = batch.field("tokens").slice(row, row + 1).span<std::int64_t>();
      stream.push_back(tokens[static_cast<std::size_t>(column)]);
    }
  }

  // Returns the input [streams, tokens so far or `longest`]. Only targets of the last `count`
  // pushed columns, up to `column`, count.
  ModelInput reading(const Batch& batch, std::int64_t column, std::int64_t count) const {
    const auto rows = static_cast<std::int64_t>(streams_.size());
    const auto time = static_cast<std::int64_t>(streams_.front().size());
    const Tensor tokens = Tensor::empty({rows, time}, DType::i64, device_, MemoryTag::workspace);
    const Tensor all_targets = tokens.empty_like();
    for (std::int64_t row = 0; row < rows; ++row) {
      std::ranges::copy(streams_[static_cast<std::size_t>(row)],
                        tokens.slice(row, row + 1).span<std::int64_t>().begin());
      const auto targets = all_targets.slice(row, row + 1).span<std::int64_t>();
      std::ranges::fill(targets, ignored_target);
      const auto known = batch.field("targets").slice(row, row + 1).span<std::int64_t>();
      std::ranges::copy(known.subspan(static_cast<std::size_t>(column + 1 - count),
                                      static_cast<std::size_t>(count)),
                        targets.end() - count);
    }
    return {.fields = {{"tokens", tokens}, {"targets", all_targets}}};
  }

 private:
  std::size_t longest_;
  Device device_;
  std::vector<std::vector<std::int64_t>> streams_;
};

}  // namespace

void EvaluationResult::add(const EvaluationResult& other) {
  nats += other.nats;
  tokens += other.tokens;
  bytes += other.bytes;
  if (other.unknown) unknown = unknown.value_or(0) + *other.unknown;
  seconds += other.seconds;
  if (watched.empty()) {
    watched = other.watched;
    return;
  }
  for (std::size_t i = 0; i < watched.size(); ++i) {
    watched[i].sum += other.watched[i].sum;
    watched[i].largest = std::max(watched[i].largest, other.watched[i].largest);
  }
}

double EvaluationResult::loss() const { return nats / static_cast<double>(tokens); }

double EvaluationResult::perplexity() const { return std::exp(loss()); }

std::optional<double> EvaluationResult::bits_per_byte() const {
  if (bytes == 0) return std::nullopt;
  return nats / static_cast<double>(bytes) / std::numbers::ln2;
}

std::string unknown_text(const EvaluationResult& result) {
  const std::int64_t unknown = result.unknown.value_or(0);
  if (unknown == 0) return "";
  return fmt::format("; {} of {} tokens ({:.3g}%) are unknown characters",
                     unknown,
                     result.tokens,
                     100 * static_cast<double>(unknown) / static_cast<double>(result.tokens));
}

std::string watched_text(const EvaluationResult& result) {
  std::string text;
  for (const AuxiliaryMetric& watched : result.watched)
    text += fmt::format("; {} {:.2f} (max {})",
                        watched.name,
                        watched.sum / static_cast<double>(result.tokens),
                        watched.largest);
  return text;
}

EvaluationResult evaluate(const Model& model,
                          const Corpus& corpus,
                          const EvaluationOptions& options) {
  check_segment(model, options.segment);
  const NoGradGuard unrecorded;
  ModelInput reading = {.max_mem_len = memory_of(model, options)};
  Evaluation evaluation(model, corpus, options);
  Batch batch;
  while (evaluation.next(batch)) {
    reading.fields = batch.fields;
    const ChunkedSequence sequence = model.chunked(reading);
    ForwardContext pass;
    pass.kv_cache = model.sequence_cache(reading, false);
    RecurrentState carried;
    for (std::int64_t chunk = 0; chunk < sequence.count(); ++chunk) {
      if (pass.kv_cache) pass.kv_cache->start_chunk(chunk);
      Losses result = model.losses(reading, pass);
      carried = std::move(result.carried);
      evaluation.add(result, batch, shard_chunk(model.parameters().mesh(), sequence, chunk));
    }
    reading.carried = std::move(carried);
  }
  return evaluation.finish();
}

EvaluationResult evaluate_sliding_window(const Model& model,
                                         const Corpus& corpus,
                                         std::int64_t context,
                                         const EvaluationOptions& options) {
  if (context < 1) throw ConfigurationError("window: expected at least 1 token, found {}", context);
  if (options.stride < 1 || options.stride > context)
    throw ConfigurationError(
        "stride: expected 1 to the window length {}, found {}", context, options.stride);
  check_segment(model, context);
  const NoGradGuard unrecorded;
  EvaluationOptions full_strides = options;
  full_strides.position_parts = 0;
  full_strides.segment =
      std::max(options.segment / options.stride, std::int64_t{1}) * options.stride;
  Evaluation evaluation(model, corpus, full_strides);
  Windows windows(context, model.parameters().device().host());
  Batch batch;
  while (evaluation.next(batch)) {
    const std::int64_t columns = batch.field("tokens").shape()[1];
    for (std::int64_t column = 0; column < columns; column += options.stride) {
      const std::int64_t count = std::min(options.stride, columns - column);
      for (std::int64_t i = 0; i < count; ++i) windows.push(batch, column + i);
      const Losses result =
          model.losses(windows.reading(batch, column + count - 1, count), ForwardContext{});
      evaluation.add(result, batch, {});  // without losses by position
    }
  }
  return evaluation.finish();
}

PositionLosses::PositionLosses(std::int64_t parts, std::int64_t segment)
    : segment_(segment),
      parts_(std::min(parts, segment)),
      sums_(static_cast<std::size_t>(parts_)),
      counts_(static_cast<std::size_t>(parts_)) {}

void PositionLosses::add(const std::vector<double>& losses,
                         const Tensor& targets,
                         const Ranges& positions) {
  const auto wanted = targets.span<std::int64_t>();
  const std::int64_t time = targets.shape()[1];
  auto loss = losses.begin();
  for (std::int64_t row = 0; row < targets.shape()[0]; ++row)
    for (const Range& range : positions)
      for (std::int64_t position = range.begin; position < range.end; ++position) {
        require(loss != losses.end() && position < segment_, "a loss has no position");
        const double here = *loss++;
        if (wanted[static_cast<std::size_t>(row * time + position)] == ignored_target) continue;
        const auto part = static_cast<std::size_t>(position * parts_ / segment_);
        sums_[part] += here;
        counts_[part] += 1;
      }
  require(loss == losses.end(),
          "{} losses do not match targets of shape {}",
          losses.size(),
          targets.shape());
}

std::vector<PositionLoss> PositionLosses::means(const ProcessMesh& mesh) const {
  const std::vector<double> sums = sum_over(mesh.replicas, sums_);
  const std::vector<double> counts = sum_over(mesh.replicas, counts_);
  std::vector<PositionLoss> means;
  // Part i has the positions p with i <= p parts / segment < i + 1.
  const auto first = [&](std::int64_t part) { return (part * segment_ + parts_ - 1) / parts_; };
  for (std::int64_t part = 0; part < parts_; ++part) {
    const auto i = static_cast<std::size_t>(part);
    if (counts[i] > 0) means.push_back({first(part), first(part + 1), sums[i] / counts[i]});
  }
  return means;
}

PaddedRows padded_rows(std::span<const std::vector<std::int64_t>* const> rows, const Device& host) {
  std::size_t longest = 1;
  for (const auto* row : rows) longest = std::max(longest, row->size());
  const auto count = std::ssize(rows);
  PaddedRows result = {
      Tensor::zeros(
          {count, static_cast<std::int64_t>(longest)}, DType::i64, host, MemoryTag::workspace),
      Tensor::zeros({count}, DType::i64, host, MemoryTag::workspace)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& row = *rows[static_cast<std::size_t>(i)];
    std::ranges::copy(row, result.ids.slice(i, i + 1).span<std::int64_t>().begin());
    result.lengths.span<std::int64_t>()[static_cast<std::size_t>(i)] = std::ssize(row);
  }
  return result;
}

std::vector<double> row_losses(const Losses& losses) {
  const Tensor here = to_host_f64(losses.terms.front().values.value());
  const auto numbers = here.span<double>();
  return {numbers.begin(), numbers.end()};
}

void check_segment(const Model& model, std::int64_t tokens) {
  const std::int64_t longest = model.body().max_segment_length();
  if (longest > 0 && tokens > longest)
    throw ConfigurationError("expected at most {} tokens per pass, found {}", longest, tokens);
}

std::vector<double> sum_over(const Communicator& ranks, std::vector<double> numbers) {
  const std::int64_t most = ranks.all_reduce(std::ssize(numbers), Reduction::maximum);
  if (most == 0) return {};
  numbers.resize(static_cast<std::size_t>(most));
  const Tensor all = Tensor::from<double>(numbers, {most}, Device::cpu(), MemoryTag::workspace);
  ranks.all_reduce(all, Reduction::sum);
  return {all.span<double>().begin(), all.span<double>().end()};
}

void AuxiliaryMetricSums::add(const std::vector<AuxiliaryMetric>& watched, const Batch& batch) {
  sums_.resize(watched.size());
  for (std::size_t i = 0; i < watched.size(); ++i) {
    const AuxiliaryMetric& one = watched[i];
    Sums& all = sums_[i];
    all.name = one.name;
    all.largest = std::max(all.largest, one.largest);
    if (mesh_.tensor.rank() != 0) continue;
    all.sum += one.sum;
    // Context ranks read the same batch.
    if (mesh_.context.rank() == 0) all.count += static_cast<double>(batch.count(one.count));
    all.at.resize(std::max(all.at.size(), 2 * one.at.size()));
    for (std::size_t p = 0; p < one.at.size(); ++p) {
      all.at[2 * p] += one.at[p].sum;
      all.at[2 * p + 1] += one.at[p].rows;
    }
  }
}

void AuxiliaryMetricSums::give(Measurement& measured) const {
  for (const Sums& each : sums_) {
    const std::vector<double> means = sum_over(mesh_.world, {each.sum, each.count});
    const double largest = mesh_.world.all_reduce(each.largest, Reduction::maximum);
    const double mean = means[0] / std::max(means[1], 1.0);
    measured.metric_values.push_back({each.name + "_mean", mean});
    measured.metric_values.push_back({each.name + "_max", largest});
    measured.text += fmt::format(", {} {:.2f} (max {})", each.name, mean, largest);
    const std::vector<double> at = sum_over(mesh_.world, each.at);
    Curve curve = {.name = each.name, .values = {}};
    for (std::size_t p = 0; p + 1 < at.size() && at[p + 1] > 0; p += 2)
      curve.values.push_back(at[p] / at[p + 1]);
    if (!curve.values.empty()) measured.curves.push_back(std::move(curve));
  }
}

}  // namespace longspan
