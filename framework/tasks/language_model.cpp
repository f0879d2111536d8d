#include "framework/tasks/language_model.h"

#include <fmt/format.h>

#include "framework/data/text_files.h"
#include "framework/model/vocabulary_readout.h"
#include "framework/tasks/evaluation.h"

namespace longspan {
namespace {

class LanguageModel : public Task {
 public:
  explicit LanguageModel(const TaskSetting& setting)
      : data_(setting.data),
        mesh_(setting.mesh),
        host_(setting.host),
        validation_batches_(setting.validation_batches),
        tokenizer_(
            prepare_tokenizer(setting.data, setting.run, setting.mesh.world, setting.listener)),
        corpus_(open_text(setting, setting.data.train)),
        identity_(identify_text(corpus_, setting.mesh.world)) {
    // Opened at the start: what is wrong with it is not to be found after hours of training.
    if (data_.validation.empty()) return;
    validation_ = open_text(setting, data_.validation);
    require_pairs(*validation_);
  }

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const TextIdentity& identity() const override { return identity_; }
  std::unique_ptr<Source> source() const override {
    return std::make_unique<StreamReader>(
        corpus_, data_.layout(), mesh_.data_coordinate(), mesh_.data.size(), host_);
  }
  std::string introduction() const override {
    return fmt::format("{}: {} tokens in {} streams, {} steps an epoch",
                       data_.train,
                       corpus_.tokens(),
                       data_.batch,
                       data_.layout().batches_per_epoch(corpus_));
  }

  std::optional<Measurement> validate(const Model& model) const override {
    if (!validation_) return std::nullopt;
    const EvaluationResult result =
        evaluate(model,
                 *validation_,
                 {.streams = data_.batch,
                  .segment = data_.segment,
                  .tokens_per_stream = validation_batches_ * data_.segment});
    Measurement measured = {.figures = {{"loss", result.loss(), "nats a token"}},
                            .text = fmt::format("validation loss {:.4f}", result.loss())};
    if (const auto bits = result.bits_per_byte()) {
      measured.figures.push_back({"bits_per_byte", *bits, "bits a byte"});
      measured.text += fmt::format(", {:.4f} bits per byte", *bits);
    }
    measured.text += watched_text(result) + unknown_text(result);
    for (const Watched& watched : result.watched) {
      measured.figures.push_back(
          {watched.name + "_mean", watched.sum / static_cast<double>(result.tokens), "a token"});
      measured.figures.push_back({watched.name + "_largest", watched.largest});
    }
    if (result.unknown)
      measured.figures.push_back(
          {.name = "unknown", .value = static_cast<double>(*result.unknown), .is_count = true});
    return measured;
  }

 private:
  Corpus open_text(const TaskSetting& setting, const NamedPath& path) const {
    return open_corpus(path, setting.data, tokenizer_, setting.run, mesh_.world, setting.listener);
  }

  DataOptions data_;
  ProcessMesh mesh_;
  Device host_;
  std::int64_t validation_batches_;
  Tokenizer tokenizer_;
  Corpus corpus_;
  TextIdentity identity_;
  std::optional<Corpus> validation_;
};

Batch dry_batch(const DryBatch& wanted) {
  const StreamRange streams = streams_of_rank(
      wanted.data.batch, wanted.mesh.data_coordinate(), wanted.mesh.data.size(), "data.batch");
  const Shape shape = {streams.count(), wanted.segments * wanted.data.segment};
  Batch batch;
  for (const char* name : {"tokens", "targets"})
    batch.fields[name] = Tensor::empty(shape, DType::i64, wanted.host, MemoryTag::workspace);
  batch.first_row = streams.begin;
  batch.fresh = wanted.fresh;
  batch.counts = {{"tokens", shape.elements()}};
  return batch;
}

}  // namespace

TaskKind language_model_task() {
  return {.name = "language_model",
          .documentation = "the next token of a text, read as streams",
          .reads_streams = true,
          .problem = [](const DataOptions& data) -> std::string {
            if (data.train_target.empty()) return "";
            return "data.train_target is for run.task: translation, and run.task is "
                   "language_model; set one of them";
          },
          .readout = vocabulary_readout(),
          .vocabulary = [](const Tokenizer& tokenizer) { return tokenizer.vocabulary(); },
          .open = [](const TaskSetting& setting) -> std::unique_ptr<Task> {
            return std::make_unique<LanguageModel>(setting);
          },
          .dry_batch = dry_batch,
          .goals = {{"loss", false}, {"bits_per_byte", false}},
          .words = [](const DataOptions& data) -> BatchWords {
            return {fmt::format("{} streams of {} tokens", data.batch, data.segment),
                    "data.segment, data.batch",
                    data.batch * data.segment,
                    "data.batch x data.segment"};
          }};
}

}  // namespace longspan
