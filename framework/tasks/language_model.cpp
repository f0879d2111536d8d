#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/core/format.h"
#include "framework/core/random.h"
#include "framework/data/corpus/corpus.h"
#include "framework/data/corpus/mixture_source.h"
#include "framework/data/corpus/text_files.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/decoding/generation.h"
#include "framework/modeling/lm_head.h"
#include "framework/tasks/evaluation.h"
#include "framework/tasks/registry.h"
#include "framework/tasks/task.h"
#include "framework/tasks/user_document_source.h"

namespace longspan {
namespace {

struct ContinuationOptions {
  std::int64_t samples = 1;  // number of passages, evenly spaced; the first is the start of the
                             // corpus
  std::uint64_t seed = 1;
  std::int64_t segment = 1;  // tokens per forward pass
};

constexpr std::int64_t max_read = 32;
constexpr std::int64_t written = 64;

// Returns the text of tokens that follow others.
std::string text_after(const Tokenizer& tokenizer,
                       std::span<const std::int64_t> before,
                       std::span<const std::int64_t> tokens) {
  TextStreamer text(tokenizer, before);
  Utf8Stream characters;
  std::string whole;
  for (const std::int64_t token : tokens) whole += characters.push(text.push(token));
  whole += characters.push(text.finish());
  return whole + characters.finish();
}

// Returns whether a byte token continues a UTF-8 character.
bool continues_character(const Tokenizer& tokenizer, std::int64_t token) {
  return tokenizer.kind() == TokenizerKind::bytes && (token & 0xC0) == 0x80;
}

// Collective; equal on every rank, as is the InvalidLogits that it throws where no token can be
// sampled. Returns, for each passage of a corpus of at least two tokens: up to 32 tokens as prompt,
// 64 sampled tokens, and the tokens that actually follow. For bytes a passage starts at a
// character. Samples are equal at each call if the logits are.
std::vector<TextSample> continuations(const Model& model,
                                      const Corpus& corpus,
                                      const ContinuationOptions& options) {
  const std::int64_t read = std::min(max_read, corpus.tokens() - 1);
  const std::int64_t known = std::min(written, corpus.tokens() - read);
  const std::int64_t last = corpus.tokens() - read - known;
  const Tokenizer& tokenizer = corpus.tokenizer();
  std::vector<std::int64_t> passage(static_cast<std::size_t>(read + known));
  const std::span<const std::int64_t> all(passage);
  const auto prompt = all.first(static_cast<std::size_t>(read));
  std::vector<TextSample> samples;
  for (std::int64_t i = 0; i < options.samples; ++i) {
    std::int64_t begin = last * i / options.samples;
    corpus.read(corpus.seek(begin), passage);
    constexpr int max_skipped = 3;  // continuation bytes of a character
    for (int k = 0; k < max_skipped && begin < last; ++k) {
      if (!continues_character(tokenizer, passage.front())) break;
      corpus.read(corpus.seek(++begin), passage);
    }
    const auto found = generate(model,
                                prompt,
                                {.tokens = written,
                                 .samples = 1,
                                 .seed = options.seed + static_cast<std::uint64_t>(i),
                                 .vocabulary = tokenizer.vocabulary(),
                                 .segment = options.segment});
    samples.push_back({text_after(tokenizer, {}, prompt),
                       text_after(tokenizer, prompt, found.front()),
                       text_after(tokenizer, prompt, all.subspan(prompt.size()))});
  }
  return samples;
}

// Each weighted path is a text of its own. Without weights all files form one text.
std::vector<MixtureComponent> texts_of(const std::vector<Corpus>& parts,
                                       const PathList& paths,
                                       std::int64_t piece) {
  if (!paths.is_weighted()) return {{DocumentList(joined(paths.text(), parts), piece)}};
  std::vector<MixtureComponent> texts;
  for (std::size_t i = 0; i < parts.size(); ++i)
    texts.push_back({DocumentList(parts[i], piece), *paths.parts[i].weight});
  return texts;
}

// Adds what determines the document order apart from the texts: grouping and splitting. File paths
// and weights are part of the configuration instead.
DataFingerprint with_order(DataFingerprint identity,
                           const std::vector<Corpus>& parts,
                           const DataOptions& data) {
  if (!data.reads_documents()) return identity;
  std::string order = fmt::format("{}", data.piece);
  for (const Corpus& part : parts) order += fmt::format(" {}", part.tokens());
  const std::uint64_t hash = Random(0).child(order).place();
  identity.sample ^= hash;
  if (identity.hash) *identity.hash ^= hash;
  return identity;
}

// Returns why training on user-supplied documents is unsupported with these options; empty if it is
// supported.
std::string validate_supply(const DataOptions& data) {
  if (data.reads_documents())
    return "data.shuffle, data.documents.reset_attention_mask and weights of data.train do not "
           "support documents passed by a program";
  if (data.tokenizer == TokenizerKind::characters || trains_tokenizer(data))
    return fmt::format(
        "data.tokenizer.type: {} requires data.train, but the program passes token ids; set it to "
        "byte, to none with data.format: tokens, or set data.tokenizer.model",
        name_of(data.tokenizer));
  return "";
}

// User-supplied documents are unknown in advance and have no fingerprint of content.
DataFingerprint supplied_identity() { return {.sample = Random(0).child("documents").place()}; }

class LanguageModel : public Task {
 public:
  // Throws ConfigurationError with validate_supply.
  explicit LanguageModel(const TaskContext& setting)
      : data_(checked(setting)),
        mesh_(setting.mesh),
        host_(setting.host),
        validation_batches_(setting.validation_batches),
        tokenizer_(
            prepare_tokenizer(setting.data, setting.run, setting.mesh.world, setting.listener)),
        seed_(setting.seed),
        documents_(setting.documents),
        identity_(supplied_identity()) {
    if (!documents_) open_files(setting);
    if (data_.reads_documents()) texts_ = texts_of(parts_, data_.train, data_.piece);
    // Opened at the start, so that errors are not found after hours of training.
    validation_ = open_parts(setting, data_.validation);
    for (const Corpus& corpus : validation_) require_pairs(corpus);
  }

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const DataFingerprint& identity() const override { return identity_; }
  std::unique_ptr<BatchSource> source() const override {
    if (documents_)
      return user_document_source(
          {documents_, data_.layout(), tokenizer_.vocabulary(), mesh_, host_});
    if (data_.reads_documents()) return mixed();
    return std::make_unique<StreamSource>(
        *corpus_, data_.layout(), mesh_.data_coordinate(), mesh_.data.size(), host_);
  }
  std::string overview() const override {
    const std::string batches = "batches of " + pluralize(data_.batch, "sequence");
    if (documents_) return "documents of the program; " + batches;
    if (!data_.reads_documents())
      return fmt::format("{}: {}; {} that continue across steps, {} per epoch",
                         data_.train,
                         pluralize(corpus_->tokens(), "token"),
                         batches,
                         pluralize(data_.layout().batches_per_epoch(*corpus_), "step"));
    std::vector<std::string> texts;
    for (const MixtureComponent& text : texts_)
      texts.push_back(
          fmt::format("{}: {} in {}{}",
                      text.documents.corpus().path(),
                      pluralize(text.documents.corpus().tokens(), "token"),
                      pluralize(text.documents.count(), "document"),
                      data_.train.is_weighted() ? fmt::format(", weight {}", text.weight) : ""));
    return fmt::format("{}; {}, documents {}{}",
                       fmt::join(texts, "; "),
                       batches,
                       data_.shuffle ? "shuffled" : "in order",
                       data_.reset_attention_mask ? ", attention mask reset" : "");
  }

  std::optional<Measurement> validate(const Model& model) const override {
    if (validation_.empty()) return std::nullopt;
    EvaluationResult result;
    std::vector<MetricValue> of_each;
    double read = 0, all = 0;  // pairs of consecutive tokens
    for (const Corpus& corpus : validation_) {
      const EvaluationResult one =
          evaluate(model,
                   corpus,
                   {.streams = data_.batch,
                    .segment = data_.segment,
                    .tokens_per_stream = validation_batches_ * data_.segment,
                    .reset_attention_mask =
                        data_.reset_attention_mask ? std::optional(data_.piece) : std::nullopt});
      result.add(one);
      const auto pairs = static_cast<double>(corpus.tokens() - 1);
      const auto most = static_cast<double>(data_.batch * validation_batches_ * data_.segment);
      read += most > 0 ? std::min(most, pairs) : pairs;
      all += pairs;
      of_each.push_back({"loss:" + corpus.path(), one.loss(), "nats per token"});
    }
    Measurement measured = {.metric_values = {{"loss", result.loss(), "nats per token"}},
                            .text = fmt::format("validation loss {:.4f}", result.loss())};
    if (const auto bits = result.bits_per_byte()) {
      measured.metric_values.push_back({"bits_per_byte", *bits, "bits per byte"});
      measured.text += fmt::format(", {:.4f} bits per byte", *bits);
    }
    measured.text += watched_text(result) + unknown_text(result);
    if (read < all) {
      measured.metric_values.push_back({"fraction", read / all});
      measured.text += fmt::format("; on {:.3g}% of the text (training.validation.max_batches: {})",
                                   100 * read / all,
                                   validation_batches_);
    }
    if (of_each.size() > 1) {
      for (const MetricValue& figure : of_each)
        measured.text += fmt::format("; {} {:.4f}", figure.name.substr(5), figure.value);
      std::ranges::move(of_each, std::back_inserter(measured.metric_values));
    }
    for (const AuxiliaryMetric& watched : result.watched) {
      measured.metric_values.push_back(
          {watched.name + "_mean", watched.sum / static_cast<double>(result.tokens), "per token"});
      measured.metric_values.push_back({watched.name + "_max", watched.largest});
    }
    if (result.unknown)
      measured.metric_values.push_back(
          {.name = "unk_tokens", .value = static_cast<double>(*result.unknown), .is_count = true});
    return measured;
  }

  std::vector<TextSample> samples(const Model& model, std::int64_t count) const override {
    if (validation_.empty()) return {};
    return continuations(
        model, validation_.front(), {.samples = count, .seed = seed_, .segment = data_.segment});
  }

 private:
  static const DataOptions& checked(const TaskContext& setting) {
    if (setting.documents) throw_if_error(validate_supply(setting.data));
    return setting.data;
  }

  void open_files(const TaskContext& setting) {
    parts_ = open_parts(setting, setting.data.train);
    corpus_ = joined(setting.data.train.text(), parts_);
    identity_ = with_order(identify_text(*corpus_, setting.mesh.world), parts_, setting.data);
  }

  std::vector<Corpus> open_parts(const TaskContext& setting, const PathList& paths) const {
    return open_each(paths, setting.data, tokenizer_, setting.run, mesh_.world, setting.listener);
  }

  std::unique_ptr<BatchSource> mixed() const {
    return std::make_unique<WeightedMixtureSource>(
        texts_,
        MixtureOptions{.layout = data_.layout(),
                       .seed = seed_,
                       .shuffle = data_.shuffle,
                       .reset_attention_mask = data_.reset_attention_mask},
        mesh_.data_coordinate(),
        mesh_.data.size(),
        host_);
  }

  DataOptions data_;
  ProcessMesh mesh_;
  Device host_;
  std::int64_t validation_batches_;
  Tokenizer tokenizer_;
  std::uint64_t seed_;
  DocumentStreamFactory documents_;      // in place of files
  std::vector<Corpus> parts_;            // of each path
  std::optional<Corpus> corpus_;         // of all files
  std::vector<MixtureComponent> texts_;  // for training on documents
  DataFingerprint identity_;
  std::vector<Corpus> validation_;  // of each path
};

Batch meta_batch(const MetaBatch& wanted) {
  const StreamRange streams = streams_of_rank(wanted.data.batch,
                                              wanted.mesh.data_coordinate(),
                                              wanted.mesh.data.size(),
                                              "data.global_batch_size");
  const Shape shape = {streams.count(), wanted.segments * wanted.data.segment};
  Batch batch;
  for (const char* name : {"tokens", "targets"})
    batch.fields[name] = Tensor::empty(shape, DType::i64, wanted.host, MemoryTag::workspace);
  if (wanted.data.reset_attention_mask)
    batch.fields["document_position"] =
        Tensor::empty(shape, DType::i64, wanted.host, MemoryTag::workspace);
  batch.first_row = streams.begin;
  batch.resets_state = wanted.resets_state;
  batch.counts = {{"tokens", shape.elements()}};
  return batch;
}

}  // namespace

TaskSpec language_model_task() {
  return {.name = "language_modeling",
          .documentation = "next-token prediction on text that is read as streams",
          .reads_streams = true,
          .supports_documents = true,
          .has_samples = true,
          .problem = [](const DataOptions& data) -> std::string {
            if (data.train_target.empty()) return "";
            return "data.train_target requires run.task: translation, found language_modeling";
          },
          .readout = lm_head(),
          .vocabulary = [](const Tokenizer& tokenizer,
                           const DataOptions&) { return tokenizer.vocabulary(); },
          .open = [](const TaskContext& setting) -> std::unique_ptr<Task> {
            return std::make_unique<LanguageModel>(setting);
          },
          .meta_batch = meta_batch,
          .goals = {{"loss", false}, {"bits_per_byte", false}},
          .words = [](const DataOptions& data) -> BatchDescription {
            return {fmt::format("batches of {} of {}",
                                pluralize(data.batch, "sequence"),
                                pluralize(data.segment, "token")),
                    "data.seq_length, data.global_batch_size",
                    data.batch * data.segment,
                    "data.global_batch_size x data.seq_length"};
          }};
}

}  // namespace longspan
