#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "framework/core/dtype.h"
#include "framework/core/format.h"
#include "framework/core/input_file.h"
#include "framework/data/batching/bucketed_source.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/corpus/text_files.h"
#include "framework/data/examples/parallel_examples.h"
#include "framework/metrics/bleu.h"
#include "framework/metrics/error_rate.h"
#include "framework/metrics/sums.h"
#include "framework/metrics/text.h"
#include "framework/modeling/heads.h"
#include "framework/tasks/evaluation.h"
#include "framework/tasks/example_data.h"
#include "framework/tasks/registry.h"
#include "framework/tasks/sequence_level.h"

namespace longspan {
namespace {

Measurement measured_loss(const Likelihood& likelihood) {
  Measurement measured = {.metric_values = metric_values(likelihood)};
  for (MetricValue& figure : measured.metric_values) figure.value = clear_nan_sign(figure.value);
  measured.text = fmt::format("loss {:.4f}, perplexity {:.3f}, {:.4f} bits per byte",
                              measured.metric_values[0].value,
                              measured.metric_values[1].value,
                              measured.metric_values[2].value);
  return measured;
}

// Collective; equal on every rank. Evaluates all examples, or a sample of them.
Measurement loss_of(const Model& model,
                    const std::shared_ptr<const Examples>& examples,
                    const BucketOptions& buckets,
                    std::int64_t parts,
                    const ExampleSample& sample,
                    const std::function<void(std::size_t)>& told = {}) {
  const NoGradGuard unrecorded;
  const ProcessMesh& mesh = model.parameters().mesh();
  SequentialReader reader(
      examples, buckets, {mesh.data_coordinate(), mesh.data.size(), parts}, sample);
  Likelihood likelihood;
  AuxiliaryMetricSums watched(mesh);
  while (!reader.done()) {
    const Batch batch = model.body().prepared(reader.next(), std::nullopt);
    const Losses losses = model.losses({.fields = batch.fields}, ForwardContext{});
    watched.add(losses.watched, batch);
    if (told) told(reader.examples_read());
    if (mesh.tensor.rank() != 0) continue;
    likelihood.nats += sum(losses.terms.front().values).value().item();
    if (mesh.context.rank() != 0) continue;
    likelihood.tokens += batch.count("tokens");
    likelihood.bytes += batch.count("bytes");
  }
  std::vector<double> sums;
  append_sums(likelihood, sums);
  consume_sums(likelihood, sum_over(mesh.world, std::move(sums)));
  Measurement measured = measured_loss(likelihood);
  watched.give(measured);
  add_coverage(reader.coverage(), measured);
  return measured;
}

// At the precision of printed BLEU scores.
bool rounds_to_zero(double score) { return score < 0.005; }

// Returns whether lines are single words, or words are as long as sentences.
bool lack_spaces(std::span<const std::string> lines) {
  constexpr std::size_t long_word = 20;
  std::size_t words = 0, letters = 0;
  for (const std::string& line : lines) {
    words += words_of(line).size();
    letters += letters_of(line).size();
  }
  return words < 2 * lines.size() || letters > long_word * words;
}

// Decodes the sources and adds metrics against the reference targets.
void add_decoded(Measurement& measured,
                 const Model& model,
                 const Tokenizer& tokenizer,
                 std::span<const std::string> sources,
                 std::span<const std::string> targets,
                 const TranslateOptions& options,
                 BleuTokens bleu_tokenizer,
                 const ConfigPath& path,
                 const std::function<void(std::size_t)>& told) {
  const auto found = translate(
      model,
      tokenizer,
      sources,
      options,
      [&](std::size_t i) { return line_location(path.text(), static_cast<std::int64_t>(i) + 1); },
      told);
  BleuSums bleu_sums;
  ChrfSums chrf;
  ErrorRate words;
  ExactMatch exact;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string& text = found[i].front().text;
    const std::span<const std::string> reference = targets.subspan(i, 1);
    bleu_sums.add(text, reference, bleu_tokenizer);
    chrf.add(text, reference);
    words.add(text, reference);
    exact.add(text, reference);
  }
  const auto add = [&](const std::vector<MetricValue>& figures) {
    measured.metric_values.insert(measured.metric_values.end(), figures.begin(), figures.end());
  };
  add(metric_values(bleu_sums));
  add(metric_values(chrf));
  add(metric_values(words, "word"));
  add(metric_values(exact));
  const bool is_usual = bleu_tokenizer == BleuTokens::thirteen_a;
  const double score = bleu(bleu_sums).score;
  measured.text += fmt::format(", BLEU{} {:.2f}, chrF {:.2f}, word error rate {:.2f}%",
                               is_usual ? "" : fmt::format(" ({})", name_of(bleu_tokenizer)),
                               score,
                               chrf.score(),
                               measured.find("word_error_rate").value_or(0));
  if (rounds_to_zero(score) && bleu_tokenizer != BleuTokens::characters && lack_spaces(targets))
    measured.text +=
        "; BLEU counts words, but the references have no spaces; set data.bleu_tokenizer to char, "
        "or to zh for Chinese";
}

class TranslationTask : public Task {
 public:
  explicit TranslationTask(const TaskContext& setting)
      : world_(setting.mesh.world),
        sample_{setting.validation_batches, setting.seed},
        validation_decoded_(setting.validation_decoded),
        validation_sides_(setting.data.validation, setting.data.validation_target),
        sentence_(setting.data.special_tokens),
        bleu_tokenizer_(setting.data.bleu_tokenizer),
        sequence_level_(setting.data.sequence_level),
        tokenizer_(
            prepare_tokenizer(setting.data, setting.run, setting.mesh.world, setting.listener)),
        data_(setting, [&](const ConfigPath& source, const ConfigPath& target) {
          const DataOptions& data = setting.data;
          const bool is_learnt =
              source.text() == data.train.text() && target.text() == data.train_target.text();
          return open_parallel_corpus(source,
                                      target,
                                      tokenizer_,
                                      tokenizer_,
                                      setting.mesh.world,
                                      setting.listener,
                                      is_learnt ? data.train_alignments : ConfigPath(),
                                      data.special_tokens);
        }) {}

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const DataFingerprint& identity() const override { return data_.identity(); }
  std::unique_ptr<BatchSource> source() const override { return data_.source(); }
  std::unique_ptr<BatchSource> source_by(const Model& model) const override {
    if (!sequence_level_.is_used()) return source();
    return std::make_unique<CandidateSource>(
        source(),
        model,
        CandidateContext{.options = sequence_level_,
                         .tokenizer = tokenizer_,
                         .special_tokens = sentence_,
                         .bleu_tokenizer = bleu_tokenizer_,
                         .length_multiple = data_.buckets().length_multiple,
                         .seed = sample_.seed});
  }
  std::vector<BatchShape> batches() const override { return data_.batches(); }
  std::string overview() const override {
    return data_.introduction(pluralize(data_.examples().size(), "pair"));
  }

  std::optional<Measurement> validate(const Model& model) const override {
    if (!data_.validation()) return std::nullopt;
    Measurement measured =
        loss_of(model, data_.validation(), data_.buckets(), data_.division().accumulation, sample_);
    measured.text = "validation " + measured.text;
    const bool is_finite = std::isfinite(measured.metric_values.front().value);
    if (validation_decoded_ == 0 || !is_finite) return measured;
    const auto [sources, targets] = first_pairs(validation_decoded_);
    add_decoded(measured,
                model,
                tokenizer_,
                sources,
                targets,
                greedy(),
                bleu_tokenizer_,
                validation_sides_.first,
                {});
    return measured;
  }

  std::vector<TextSample> samples(const Model& model, std::int64_t count) const override {
    if (!data_.validation()) return {};
    const auto [sources, targets] = first_pairs(count);
    const ConfigPath& path = validation_sides_.first;
    const auto found = translate(model, tokenizer_, sources, greedy(), [&](std::size_t i) {
      return line_location(path.text(), static_cast<std::int64_t>(i) + 1);
    });
    std::vector<TextSample> samples;
    for (std::size_t i = 0; i < found.size(); ++i)
      samples.push_back({sources[i], found[i].front().text, targets[i]});
    return samples;
  }

 private:
  // The first lines of the validation data, with their targets.
  std::pair<std::vector<std::string>, std::vector<std::string>> first_pairs(
      std::int64_t most) const {
    std::vector<std::string> sources = read_lines(validation_sides_.first, world_);
    std::vector<std::string> targets = read_lines(validation_sides_.second, world_);
    const std::size_t count = std::min(sources.size(), static_cast<std::size_t>(most));
    sources.resize(count);
    targets.resize(count);
    return {std::move(sources), std::move(targets)};
  }
  TranslateOptions greedy() const {
    return {.beam = 1, .max_source_length = data_.buckets().longest, .special_tokens = sentence_};
  }

  Communicator world_;
  ExampleSample sample_;  // of the validation data
  std::int64_t validation_decoded_;
  std::pair<ConfigPath, ConfigPath> validation_sides_;
  SpecialTokenNames sentence_;
  BleuTokens bleu_tokenizer_;
  SequenceLevelOptions sequence_level_;
  Tokenizer tokenizer_;
  ExampleData data_;
};

std::string validate_pairs(const DataOptions& data) {
  if (data.tokenizer == TokenizerKind::characters)
    return "data.tokenizer.type: run.task: translation does not support char; set it to "
           "sentencepiece (data.tokenizer.model_type: char) or byte";
  if (!data.train_alignments.empty() && data.buckets.subword_sampling > 0)
    return "data.train_alignments cannot be combined with data.tokenizer.sampling_alpha";
  const std::pair<const ConfigPath*, const ConfigPath*> sides[] = {
      {&data.train, &data.train_target},
      {&data.validation, &data.validation_target},
      {&data.test, &data.test_target}};
  constexpr const char* names[] = {"train", "validation", "test"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (sides[i].first->empty() == sides[i].second->empty()) continue;
    const bool lacks_target = sides[i].second->empty();
    return fmt::format("data.{0}{1} requires data.{0}{2} with run.task: translation",
                       names[i],
                       lacks_target ? "" : "_target",
                       lacks_target ? "_target" : "");
  }
  return "";
}

std::map<std::string, Shape> fields_of_pairs(std::int64_t rows, const Lengths& columns) {
  return {{"links", {rows, columns.target, 2}},
          {"source", {rows, columns.source}},
          {"source_length", {rows}},
          {"tokens", {rows, columns.target}},
          {"targets", {rows, columns.target}},
          {"length", {rows}}};
}

std::vector<BatchShape> planned_batches(const DataOptions& data,
                                        std::uint64_t seed,
                                        const ProgressCallback& listener) {
  const bool has_files = path_exists(data.train.text()) && path_exists(data.train_target.text());
  if (trains_tokenizer(data) || !has_files) return {};
  const Tokenizer tokenizer = make_tokenizer(data, listener);
  return batches_of(open_parallel_corpus(data.train,
                                         data.train_target,
                                         tokenizer,
                                         tokenizer,
                                         Communicator(),
                                         listener,
                                         {},
                                         data.special_tokens),
                    data,
                    seed);
}

Measurement evaluate_pairs(const EvaluateRequest& request) {
  const Communicator& world = request.model.parameters().mesh().world;
  if (request.target.empty())
    throw ConfigurationError("{}: targets are missing; set --data-target together with --data",
                             request.file);
  const auto examples = open_parallel_corpus(request.file,
                                             request.target,
                                             request.tokenizer,
                                             request.tokenizer,
                                             world,
                                             request.listener,
                                             {},
                                             request.data.special_tokens);
  Measurement measured = loss_of(request.model,
                                 examples,
                                 request.data.buckets,
                                 1,
                                 {},
                                 progress(request.say,
                                          "pairs",
                                          static_cast<std::size_t>(examples->size()),
                                          request.progress_interval));
  if (!std::isfinite(measured.metric_values.front().value)) return measured;
  TranslateOptions decoding = request.decoding;
  decoding.max_source_length = request.data.buckets.longest;  // as for the loss
  decoding.special_tokens = request.data.special_tokens;
  const std::vector<std::string> sources = read_lines(request.file, world);
  const std::vector<std::string> targets = read_lines(request.target, world);
  add_decoded(measured,
              request.model,
              request.tokenizer,
              sources,
              targets,
              decoding,
              request.data.bleu_tokenizer,
              request.file,
              progress(request.say, "lines", sources.size(), request.progress_interval));
  return measured;
}

std::vector<std::string> write_targets(const PredictRequest& request) {
  TranslateOptions decoding = request.decoding;
  decoding.special_tokens = request.data.special_tokens;
  const auto say = progress(request.say, "lines", request.lines.size());
  const auto found = translate(request.model,
                               request.tokenizer,
                               request.lines,
                               decoding,
                               request.place,
                               [&](std::size_t done) {
                                 if (say) say(done);
                                 if (request.after_batch) request.after_batch();
                               });
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const Translation& one : found[i])
      lines.push_back(request.decoding.n_best == 1
                          ? one.text
                          : fmt::format("{}\t{:.6f}\t{}", i + 1, one.score, one.text));
  return lines;
}

}  // namespace

TaskSpec translation_task() {
  return {.name = "translation",
          .documentation = "translation of each line of a file into the same line of another",
          .has_samples = true,
          .problem = validate_pairs,
          .readout = seq2seq_head(),
          .vocabulary =
              [](const Tokenizer& tokenizer, const DataOptions& data) {
                return sentence_ids(tokenizer, data.special_tokens).vocabulary;
              },
          .extra_ids =
              [](const DataOptions& data) {
                return max_sentence_ids(data.tokenizer, data.special_tokens);
              },
          .open = [](const TaskContext& setting) -> std::unique_ptr<Task> {
            return std::make_unique<TranslationTask>(setting);
          },
          .meta_batch =
              [](const MetaBatch& wanted) {
                Batch batch = meta_examples(wanted, true, fields_of_pairs);
                // Upper bound.
                batch.counts["linked"] = batch.counts["tokens"];
                batch.counts["cells"] = batch.counts["tokens"] * batch.field("source").shape()[1];
                return wanted.data.sequence_level.is_used() ? meta_candidates(batch, wanted.data)
                                                            : batch;
              },
          .goals = {{"loss", false}, {"perplexity", false}, {"bits_per_byte", false}},
          .decoded_goals = {{"bleu"},
                            {"chrf"},
                            {"word_error_rate", false},
                            {"sequence_error_rate", false},
                            {"exact_match"}},
          .words = [](const DataOptions& data) -> BatchDescription {
            return {fmt::format("pairs in batches of {} of both sides",
                                pluralize(data.buckets.batch_tokens, "token")),
                    "data.global_batch_tokens, data.max_length",
                    data.buckets.batch_tokens,
                    "data.global_batch_tokens"};
          },
          .has_pairs = true,
          .planned_batches = planned_batches,
          .evaluate = evaluate_pairs,
          .write = write_targets};
}

}  // namespace longspan
