#include "framework/tasks/translate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "framework/data/batching/batch_plan.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/modeling/all_gather_logits.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/tasks/evaluation.h"

namespace longspan {
namespace {

// A batch of lines.
struct SourceBatch {
  std::vector<std::size_t> lines;
  std::vector<std::vector<std::int64_t>> ids;
};

// Incremental decoding: reads the sources once, then one token per hypothesis and step. With
// copying each step also needs the source ids.
class Reader {
 public:
  Reader(const Model& model, std::span<const std::vector<std::int64_t>> ids)
      : model_(model), ids_(ids) {}

  Tensor operator()(std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    Fields fields;
    fields["tokens"] = Tensor::from(tokens, {count, 1}, host(), MemoryTag::workspace);
    const bool is_first = kept_->positions() == 0;
    std::vector<std::int64_t> sentences;
    for (const std::int64_t row : rows)
      sentences.push_back(is_first ? row : sentences_[static_cast<std::size_t>(row)]);
    sentences_ = std::move(sentences);
    if (!is_first) kept_->choose(rows);
    if (is_first || model_.body().end().source.copies) add_sources(fields, sentences_);
    const Scores scores = model_.scores({.fields = std::move(fields), .only_last = true},
                                        ForwardContext{.random = Random(0), .kv_cache = kept_});
    return all_gather_logits(
        scores.scores.value(), model_.readout().part(), model_.parameters().mesh().tensor);
  }

 private:
  Device host() const { return model_.parameters().device().host(); }

  void add_sources(Fields& fields, std::span<const std::int64_t> rows) const {
    std::vector<const std::vector<std::int64_t>*> sources;
    for (const std::int64_t row : rows) sources.push_back(&ids_[static_cast<std::size_t>(row)]);
    const PaddedRows source = padded_rows(sources, host());
    fields["source"] = source.ids;
    fields["source_length"] = source.lengths;
  }

  const Model& model_;
  std::span<const std::vector<std::int64_t>> ids_;
  std::vector<std::int64_t> sentences_;  // index in the batch, per hypothesis
  std::shared_ptr<KVCache> kept_ = std::make_shared<KVCache>();
};

// Returns batches of the non-empty lines, longest first.
std::vector<SourceBatch> batches_of(const Model& model,
                                    const Tokenizer& tokenizer,
                                    std::span<const std::string> lines,
                                    const TranslateOptions& options,
                                    const std::function<std::string(std::size_t)>& place) {
  std::vector<std::vector<std::int64_t>> ids(lines.size());
  const SpecialTokenTemplate frame(tokenizer);
  const std::int64_t longest = model.body().max_segment_length();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    ids[i] = tokenizer.encode(lines[i], place(i));
    if (ids[i].empty()) continue;
    ids[i] = add_special_tokens(frame, std::move(ids[i]), place(i), options.max_source_length);
    if (longest > 0 && std::ssize(ids[i]) > longest)
      throw DataError("{}: expected at most {} tokens, found {}", place(i), longest, ids[i].size());
  }
  // Each hypothesis caches the keys of at least some dozens of positions.
  constexpr std::int64_t max_hypotheses = 1024;
  std::int64_t hypotheses = options.sampling ? options.n_best : options.beam;
  if (model.body().end().masked) hypotheses = options.length_beam;
  const auto tokens_of = [&](std::int64_t line) -> Lengths {
    return {0, std::ssize(ids[static_cast<std::size_t>(line)])};
  };
  const BatchPlan plan = sorted_batches(std::ssize(lines),
                                        tokens_of,
                                        options.batch_tokens,
                                        std::max<std::int64_t>(max_hypotheses / hypotheses, 1));
  std::vector<SourceBatch> batches;
  for (std::vector<std::size_t>& examples : examples_of(plan)) {
    SourceBatch& batch = batches.emplace_back();
    for (const std::size_t i : examples) batch.ids.push_back(std::move(ids[i]));
    batch.lines = std::move(examples);
  }
  return batches;
}

BeamOptions beam_of(const Tokenizer& tokenizer,
                    const TranslateOptions& options,
                    const SpecialTokenIds& special) {
  return {.vocabulary = target_vocabulary(tokenizer, special),
          .beam = options.beam,
          .n_best = options.n_best,
          .penalty = options.penalty,
          .alpha = options.alpha};
}

MaskedSearchOptions masked_of(const Tokenizer& tokenizer,
                              const TranslateOptions& options,
                              const SpecialTokenIds& special) {
  return {.vocabulary = target_vocabulary(tokenizer, special),
          .iterations = options.iterations,
          .lengths = options.length_beam,
          .n_best = options.n_best};
}

// Returns which options do not apply to this decoder type; empty if all apply.
std::string validate_decoder(const TranslateOptions& options, bool masked) {
  const TranslateOptions usual;
  if (!masked &&
      (options.iterations != usual.iterations || options.length_beam != usual.length_beam))
    return "iterations and length beam require model.decoder_type: non_autoregressive, found "
           "autoregressive";
  if (masked && options.sampling)
    return "sampling requires model.decoder_type: autoregressive, found non_autoregressive";
  if (masked && options.beam != usual.beam && options.beam != 1)
    return "beam requires model.decoder_type: autoregressive, found non_autoregressive; use "
           "--length-beam";
  if (masked && (options.alpha != usual.alpha || options.penalty != usual.penalty))
    return "length penalty requires model.decoder_type: autoregressive, found non_autoregressive";
  return "";
}

// Checked on all ranks, including data ranks without lines.
void check(const Model& model,
           const Tokenizer& tokenizer,
           const TranslateOptions& options,
           const SpecialTokenIds& special) {
  const std::optional<NatTargets> masked = model.body().end().masked;
  throw_if_error(validate_decoder(options, masked.has_value()));
  if (masked) {
    if (masked->masking == NatObjective::all && options.iterations > 1 &&
        options.iterations != TranslateOptions().iterations)
      throw ConfigurationError("iterations: expected 1 with model.nat.objective: vanilla, found {}",
                               options.iterations);
    throw_if_error(problem_of(masked_of(tokenizer, options, special)));
    return;
  }
  if (!options.sampling) {
    throw_if_error(problem_of(beam_of(tokenizer, options, special)));
    return;
  }
  check_sampling(*options.sampling);
  if (options.n_best < 1)
    throw ConfigurationError("samples: expected at least 1, found {}", options.n_best);
}

std::vector<std::vector<Hypothesis>> search(const Model& model,
                                            const Tokenizer& tokenizer,
                                            const SourceBatch& batch,
                                            const SpecialTokenIds& special,
                                            const TranslateOptions& options) {
  const std::int64_t longest = model.body().max_segment_length();
  std::vector<SearchInput> inputs;
  const std::int64_t before = special.first ? 2 : 1;  // tokens read before the first prediction
  for (std::size_t i = 0; i < batch.lines.size(); ++i) {
    std::int64_t most = std::ssize(batch.ids[i]) + options.max_extra_length;
    if (longest > 0) most = std::min(most, longest - before);
    inputs.push_back({.index = static_cast<std::int64_t>(batch.lines[i]),
                      .first = special.begin,
                      .longest = std::max<std::int64_t>(most, 1)});
  }
  if (model.body().end().masked)
    return masked_search(model, batch.ids, inputs, masked_of(tokenizer, options, special));
  const SearchStep step = target_step(model, batch.ids, special);
  if (options.sampling)
    return sample(step,
                  inputs,
                  {.vocabulary = target_vocabulary(tokenizer, special),
                   .samples = options.n_best,
                   .seed = options.seed,
                   .sampling = *options.sampling});
  return beam_search(step, inputs, beam_of(tokenizer, options, special));
}

// Replaces the number of hypotheses in an error message; the number is never that large.
constexpr std::string_view invalid_prefix = "unsound:";

// Serializes integers and doubles for ranks of the same architecture.
class Message {
 public:
  explicit Message(std::string bytes = {}) : bytes_(std::move(bytes)) {}
  template <typename T>
  void put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename T>
  T take() {
    T value{};
    bytes_.copy(reinterpret_cast<char*>(&value), sizeof value, at_);
    at_ += sizeof value;
    return value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

std::string packed(const std::vector<std::vector<Hypothesis>>& found) {
  Message message;
  for (const auto& of_line : found) {
    message.put(of_line.size());
    for (const Hypothesis& one : of_line) {
      message.put(one.score);
      message.put(one.log_probability);
      message.put(one.tokens.size());
      for (const std::int64_t token : one.tokens) message.put(token);
    }
  }
  return message.bytes();
}

std::vector<std::vector<Hypothesis>> unpacked(std::string bytes, std::size_t lines) {
  Message message(std::move(bytes));
  std::vector<std::vector<Hypothesis>> found(lines);
  for (auto& of_line : found) {
    of_line.resize(message.take<std::size_t>());
    for (Hypothesis& one : of_line) {
      one.score = message.take<double>();
      one.log_probability = message.take<double>();
      one.tokens.resize(message.take<std::size_t>());
      for (std::int64_t& token : one.tokens) token = message.take<std::int64_t>();
    }
  }
  return found;
}

}  // namespace

SearchStep target_step(const Model& model,
                       std::span<const std::vector<std::int64_t>> sources,
                       const SpecialTokenIds& special) {
  return
      [reader = std::make_shared<Reader>(model, sources), first = special.first, is_first = true](
          std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows) mutable {
        const Tensor logits = (*reader)(tokens, rows);
        if (!std::exchange(is_first, false) || !first) return logits;
        // Forced first token of every result.
        const std::vector<std::int64_t> firsts(tokens.size(), *first);
        std::vector<std::int64_t> same(tokens.size());
        std::iota(same.begin(), same.end(), 0);
        return (*reader)(firsts, same);
      };
}

SearchVocabulary target_vocabulary(const Tokenizer& tokenizer, const SpecialTokenIds& special) {
  SearchVocabulary vocabulary = {.end = special.end, .size = special.vocabulary};
  if (!special.allows_bos) vocabulary.forbidden.push_back(special.begin);
  // Its tokens may contain line ends within other text; they are removed from the result later.
  if (tokenizer.json_tokenizer() != nullptr) return vocabulary;
  // Without a known line end id.
  if (tokenizer.kind() == TokenizerKind::ids) return vocabulary;
  // A result is one line.
  const SentencePieceModel* subwords = tokenizer.subword_model();
  const std::int64_t line_end = subwords ? subwords->line_end() : '\n';
  if (line_end >= 0 && line_end != special.end) vocabulary.forbidden.push_back(line_end);
  return vocabulary;
}

std::vector<std::vector<Translation>> translate(
    const Model& model,
    const Tokenizer& tokenizer,
    std::span<const std::string> lines,
    const TranslateOptions& options,
    const std::function<std::string(std::size_t)>& place,
    const std::function<void(std::size_t)>& told) {
  const NoGradGuard unrecorded;
  const SpecialTokenIds special = sentence_ids(tokenizer, options.special_tokens);
  check(model, tokenizer, options, special);
  const std::vector<SourceBatch> batches = batches_of(model, tokenizer, lines, options, place);
  const Communicator& data = model.parameters().mesh().data;
  std::vector<std::vector<Translation>> result(lines.size());
  std::size_t done = 0;
  const auto ranks = static_cast<std::size_t>(data.size());
  for (std::size_t first = 0; first < batches.size(); first += ranks) {
    const std::size_t mine = first + static_cast<std::size_t>(data.rank());
    std::string bytes;
    // The caller may continue without translations, so every rank must throw.
    if (mine < batches.size()) try {
        bytes = packed(search(model, tokenizer, batches[mine], special, options));
      } catch (const InvalidLogits& error) {
        bytes = std::string(invalid_prefix) + error.what();
      }
    for (std::size_t i = first; i < std::min(first + ranks, batches.size()); ++i) {
      const SourceBatch& batch = batches[i];
      std::string shared = data.broadcast(bytes, static_cast<int>(i - first));
      if (shared.starts_with(invalid_prefix))
        throw InvalidLogits("{}", shared.substr(invalid_prefix.size()));
      const auto found = unpacked(std::move(shared), batch.lines.size());
      for (std::size_t j = 0; j < batch.lines.size(); ++j)
        for (const Hypothesis& one : found[j])
          result[batch.lines[j]].push_back(
              {decode_sentence(tokenizer, one.tokens, options.special_tokens),
               one.score,
               one.log_probability});
      done += batch.lines.size();
    }
    if (told) told(done);
  }
  // Empty lines have an empty result.
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (result[i].empty()) result[i].emplace_back();
  return result;
}

}  // namespace longspan
