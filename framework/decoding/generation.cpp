#include "framework/decoding/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/core/dispatch.h"
#include "framework/core/utf8.h"
#include "framework/kernels/elementwise.h"
#include "framework/modeling/all_gather_logits.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {
namespace {

// [rows, 1, width] of x [rows, time, width].
Tensor last_position(const Tensor& x) {
  const Tensor last =
      Tensor::empty(x.shape().with(1, 1), x.dtype(), x.device(), MemoryTag::workspace);
  on(x.device(), [&](auto backend) { copy_rows(backend, x, x.shape()[1] - 1, last, 0, 1, false); });
  return last;
}

// The model with the tokens read so far, in streams of equal length.
class Reader {
 public:
  Reader(const Model& model, const GenerationOptions& options)
      : model_(model),
        memory_(options.memory.value_or(model.body().max_mem_len())),
        segment_(options.segment) {
    const std::int64_t longest = model.body().max_segment_length();
    is_stateful_ = model.body().is_stateful() && model.body().supports_kv_cache();
    if (longest > 0) segment_ = memory_ > 0 || is_stateful_ ? std::min(segment_, longest) : longest;
    if (memory_ == 0 && model.body().supports_kv_cache()) kept_ = std::make_shared<KVCache>();
    if (is_stateful_)
      chunk_length_ = std::min(segment_, model.bptt_chunk_length().value_or(segment_));
    else if (longest == 0 && kept_)
      chunk_length_ = model.bptt_chunk_length();
  }

  // Returns the logits after the prompt: [vocabulary].
  std::vector<double> read_prompt(const Prompt& prompt) {
    if (memory_ == 0 && !chunk_length_) {
      windows_.assign(
          1, tokens_of(prompt, std::max<std::int64_t>(0, prompt.tokens - segment_), segment_));
      return read_windows();
    }
    std::vector<double> logits;
    for (std::int64_t begin = 0; begin < prompt.tokens;) {
      start_segment_if_full();
      const std::int64_t most = chunk_length_.value_or(segment_);
      const std::vector<std::int64_t> piece = tokens_of(
          prompt, begin, is_stateful_ ? std::min(most, segment_ - kept_->positions()) : most);
      logits = read_segment(piece, 1);
      begin += std::ssize(piece);
    }
    return logits;
  }

  // Continues with `streams` copies of the prompt.
  void repeat(std::int64_t streams) {
    if (memory_ == 0) {
      if (!chunk_length_) windows_.resize(static_cast<std::size_t>(streams), windows_.front());
      if (kept_) kept_->choose(std::vector<std::int64_t>(static_cast<std::size_t>(streams), 0));
      return;
    }
    for (RecurrentStateTensor& carried : remembered_.tensors) {
      Tensor& layer = carried.tensor;
      const Tensor all = Tensor::empty(layer.shape().with(0, streams),
                                       layer.dtype(),
                                       layer.device(),
                                       MemoryTag::recurrent_state);
      for (std::int64_t s = 0; s < streams; ++s) all.slice(s, s + 1).copy_from(layer);
      layer = all;
    }
  }

  // Returns the logits after one more token of each stream: [streams, vocabulary].
  std::vector<double> read(std::span<const std::int64_t> tokens) {
    start_segment_if_full();
    if (memory_ > 0 || chunk_length_)
      return read_segment(tokens, static_cast<std::int64_t>(tokens.size()));
    for (std::size_t s = 0; s < tokens.size(); ++s) windows_[s].push_back(tokens[s]);
    if (kept_ && std::ssize(windows_.front()) <= segment_)
      return read_segment(tokens, std::ssize(windows_));
    // From here on the window moves, which changes the position of every token.
    kept_ = nullptr;
    return read_windows();
  }

 private:
  // As in training, a stateful model attends within segments.
  void start_segment_if_full() {
    if (is_stateful_ && kept_->positions() == segment_) kept_->start_segment();
  }
  // Returns up to `most` prompt tokens from `begin` on.
  std::vector<std::int64_t> tokens_of(const Prompt& prompt,
                                      std::int64_t begin,
                                      std::int64_t most) const {
    const std::int64_t count = std::min(most, prompt.tokens - begin);
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
    prompt.read(begin, tokens);
    for (const std::int64_t token : tokens)
      require(token >= 0 && token < model_.readout().part().total,
              "prompt token {} is out of range ({} tokens)",
              token,
              model_.readout().part().total);
    return tokens;
  }

  std::vector<double> read_segment(std::span<const std::int64_t> tokens, std::int64_t streams) {
    const auto time = static_cast<std::int64_t>(tokens.size()) / streams;
    const Tensor ids = Tensor::from(
        tokens, {streams, time}, model_.parameters().device().host(), MemoryTag::workspace);
    // Incremental passes are not sharded over context ranks.
    const bool is_divided = !kept_ && model_.parameters().mesh().context.size() > 1;
    const ModelInput reading = {.fields = {{"tokens", ids}},
                                .carried = std::move(remembered_),
                                .max_mem_len = memory_,
                                .only_last = !is_divided};
    ForwardContext pass = {.kv_cache = kept_};
    const ChunkedSequence sequence = model_.chunked(reading);
    if (memory_ > 0 && sequence.count() > 1) {
      pass.kv_cache = std::make_shared<KVCache>(sequence, false);
      for (std::int64_t chunk = 0; chunk + 1 < sequence.count(); ++chunk) {
        pass.kv_cache->start_chunk(chunk);
        model_.compute_states(reading, pass);
      }
      pass.kv_cache->start_chunk(sequence.count() - 1);
    }
    Scores result = model_.scores(reading, pass);
    remembered_ = std::move(result.carried);
    // Logits that differ in the last bit could make ranks sample different tokens.
    return is_divided ? of_last_position(result.scores.value(), sequence)
                      : broadcast_logits(0, whole(result.scores.value()));
  }

  std::vector<double> whole(const Tensor& scores) const {
    const Tensor logits =
        all_gather_logits(scores, model_.readout().part(), model_.parameters().mesh().tensor);
    const auto copy = [](const auto& values) {
      return std::vector<double>(values.begin(), values.end());
    };
    return logits.dtype() == DType::f32 ? copy(logits.span<float>()) : copy(logits.span<double>());
  }

  // For segments sharded over context ranks: the rank with the last position broadcasts its logits.
  std::vector<double> of_last_position(const Tensor& scores,
                                       const ChunkedSequence& sequence) const {
    const ProcessMesh& mesh = model_.parameters().mesh();
    const Ranges held = shard_chunk(mesh, sequence, sequence.count() - 1).inside();
    const bool has_last = std::ranges::any_of(
        held, [&](const Range& range) { return range.end == sequence.total && range.count() > 0; });
    const std::int64_t owner = mesh.context.all_reduce(
        has_last ? std::int64_t{mesh.context.rank()} : std::int64_t{-1}, Reduction::maximum);
    const std::int64_t count = scores.shape()[0] * model_.readout().part().total;
    std::vector<double> logits(static_cast<std::size_t>(count));
    if (has_last) logits = whole(last_position(scores));
    return broadcast_logits(owner, std::move(logits));
  }

  // Broadcasts the logits of a context rank exactly; every rank has equally many.
  std::vector<double> broadcast_logits(std::int64_t owner, std::vector<double> logits) const {
    const Communicator& context = model_.parameters().mesh().context;
    if (context.size() == 1) return logits;
    const Tensor shared = Tensor::from(std::span<const double>(logits),
                                       {std::ssize(logits)},
                                       model_.parameters().device().host(),
                                       MemoryTag::workspace);
    context.broadcast(shared, static_cast<int>(owner));
    const auto told = shared.span<double>();
    return {told.begin(), told.end()};
  }

  std::vector<double> read_windows() {
    std::vector<std::int64_t> tokens;
    const auto most = static_cast<std::size_t>(segment_);
    for (auto& window : windows_) {
      if (window.size() > most)
        window.erase(window.begin(), window.end() - static_cast<std::ptrdiff_t>(most));
      tokens.insert(tokens.end(), window.begin(), window.end());
    }
    return read_segment(tokens, static_cast<std::int64_t>(windows_.size()));
  }

  const Model& model_;
  std::int64_t memory_;
  std::int64_t segment_;
  RecurrentState remembered_;
  // If set, the KV cache holds the states of the whole text or, of a stateful model, the recurrent
  // states of the whole text and the keys of the current segment.
  std::optional<std::int64_t> chunk_length_;
  bool is_stateful_ = false;
  // Without memory: the windows, and a KV cache if the model supports one, valid until the window
  // moves.
  std::vector<std::vector<std::int64_t>> windows_;
  std::shared_ptr<KVCache> kept_;
};

}  // namespace

void check_generation(const Model& model,
                      std::int64_t prompt_tokens,
                      const GenerationOptions& options) {
  if (prompt_tokens == 0) throw ConfigurationError("the prompt is empty; give at least 1 token");
  if (options.tokens < 0 || options.samples < 1 || options.segment < 1)
    throw ConfigurationError(
        "expected at least 0 tokens, 1 sample and a segment length of 1, found {}, {} and {}",
        options.tokens,
        options.samples,
        options.segment);
  check_sampling(options.sampling);
  if (options.memory.value_or(0) < 0)
    throw ConfigurationError("memory length: expected at least 0, found {}", *options.memory);
  if (options.memory.value_or(0) > 0 && model.body().recurrent_state_names().empty())
    throw ConfigurationError("the model does not support mem_len > 0, found {}", *options.memory);
  require(options.vocabulary <= model.readout().part().total,
          "expected at most {} token ids, found {}",
          model.readout().part().total,
          options.vocabulary);
}

std::vector<std::vector<std::int64_t>> generate(const Model& model,
                                                std::span<const std::int64_t> prompt,
                                                const GenerationOptions& options,
                                                const TokenSink& sink) {
  const auto read = [prompt](std::int64_t begin, std::span<std::int64_t> out) {
    std::ranges::copy(prompt.subspan(static_cast<std::size_t>(begin), out.size()), out.begin());
  };
  return generate(model, Prompt{std::ssize(prompt), read}, options, sink);
}

std::vector<std::vector<std::int64_t>> generate(const Model& model,
                                                const Prompt& prompt,
                                                const GenerationOptions& options,
                                                const TokenSink& sink) {
  check_generation(model, prompt.tokens, options);
  const NoGradGuard unrecorded;
  const auto samples = static_cast<std::size_t>(options.samples);
  std::vector<std::vector<std::int64_t>> result(samples);
  if (options.tokens == 0) return result;
  Reader reader(model, options);
  const std::vector<double> first = reader.read_prompt(prompt);
  reader.repeat(options.samples);
  const std::size_t vocabulary = first.size();
  const std::size_t allowed =
      options.vocabulary > 0 ? static_cast<std::size_t>(options.vocabulary) : vocabulary;
  std::vector<double> logits;
  for (std::size_t s = 0; s < samples; ++s) logits.insert(logits.end(), first.begin(), first.end());
  const Random random = Random(options.seed).child("generation");
  std::vector<std::int64_t> chosen(samples);
  std::vector<bool> ended(samples);
  for (std::int64_t i = 0; i < options.tokens && std::ranges::count(ended, false) > 0; ++i) {
    if (i > 0) logits = reader.read(chosen);
    for (std::size_t s = 0; s < samples; ++s) {
      if (ended[s]) continue;  // the end is read again, because streams have equal lengths
      const auto row = std::span<const double>(logits).subspan(s * vocabulary, allowed);
      const double uniform = uniform_at(random.child(s), static_cast<std::uint64_t>(i));
      chosen[s] = sample_token(row, options.sampling, uniform);
      ended[s] = std::ranges::count(options.ends, chosen[s]) > 0;
      if (ended[s]) continue;
      result[s].push_back(chosen[s]);
      if (sink) sink(static_cast<std::int64_t>(s), chosen[s]);
    }
  }
  return result;
}

std::string Utf8Stream::push(std::string_view bytes) {
  waiting_ += bytes;
  std::string ready;
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    const Utf8Character character = decode_utf8(rest);
    if (character.status == Utf8Status::incomplete) break;
    if (character.status == Utf8Status::valid) {
      ready += rest.substr(0, static_cast<std::size_t>(character.width));
      rest.remove_prefix(static_cast<std::size_t>(character.width));
      continue;
    }
    // The invalid byte may start a character itself, unless it is the first.
    append_utf8(ready, replacement_character);
    rest.remove_prefix(static_cast<std::size_t>(std::max(1, character.width - 1)));
  }
  waiting_ = std::string(rest);
  return ready;
}

std::string Utf8Stream::finish() {
  std::string rest;
  if (!waiting_.empty()) append_utf8(rest, replacement_character);
  waiting_.clear();
  return rest;
}

}  // namespace longspan
