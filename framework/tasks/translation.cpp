#include "framework/tasks/translation.h"

#include <fmt/format.h>

#include "framework/core/unsigned_nan.h"
#include "framework/data/bucketed_source.h"
#include "framework/data/ordered_reader.h"
#include "framework/data/pair_examples.h"
#include "framework/data/sentence_ids.h"
#include "framework/data/text_files.h"
#include "framework/metrics/likelihood.h"
#include "framework/metrics/sums.h"
#include "framework/model/vocabulary_readout.h"

namespace longspan {
namespace {

// Of both sides.
TextIdentity identify_pairs(const NamedPath& source,
                            const NamedPath& target,
                            const Communicator& world) {
  TextIdentity one = identify_text(Corpus(source, Tokenizer()), world);
  const TextIdentity other = identify_text(Corpus(target, Tokenizer()), world);
  one.sample = one.sample * 31 + other.sample;
  one.modified = std::max(one.modified, other.modified);
  if (one.hash && other.hash)
    one.hash = *one.hash * 31 + *other.hash;
  else
    one.hash.reset();
  return one;
}

class Translation : public Task {
 public:
  explicit Translation(const TaskSetting& setting)
      : data_(setting.data),
        mesh_(setting.mesh),
        seed_(setting.seed),
        validation_batches_(setting.validation_batches),
        division_{setting.mesh.data_coordinate(), setting.mesh.data.size(), setting.parts},
        tokenizer_(
            prepare_tokenizer(setting.data, setting.run, setting.mesh.world, setting.listener)),
        examples_(open(setting.data.train, setting.data.train_target, setting.listener)),
        identity_(
            identify_pairs(setting.data.train, setting.data.train_target, setting.mesh.world)) {
    if (!data_.validation.empty())
      validation_ = open(data_.validation, data_.validation_target, setting.listener);
  }

  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const TextIdentity& identity() const override { return identity_; }
  std::unique_ptr<Source> source() const override {
    return std::make_unique<BucketedSource>(examples_, data_.buckets, seed_, division_);
  }
  std::string introduction() const override {
    const BucketedSource source(examples_, data_.buckets, seed_, division_);
    const std::string too_long = source.lengths().told();
    return fmt::format("{}: {} pairs, {} steps in the first epoch{}",
                       data_.train,
                       examples_->size(),
                       source.batches_of_epoch(),
                       too_long.empty() ? "" : "; " + too_long);
  }

  std::optional<Measurement> validate(const Model& model) const override {
    if (!validation_) return std::nullopt;
    const NoGradient unrecorded;
    OrderedReader reader(validation_, data_.buckets, division_);
    Likelihood likelihood;
    for (std::int64_t i = 0;
         !reader.done() && (validation_batches_ == 0 || i < validation_batches_);
         ++i) {
      const Batch batch = reader.next();
      const Losses losses = model.losses({.fields = batch.fields}, Pass{});
      if (mesh_.tensor.rank() == 0)
        likelihood.nats += sum(losses.terms.front().values).value().item();
      if (mesh_.tensor.rank() == 0 && mesh_.context.rank() == 0) {
        likelihood.tokens += batch.count("tokens");
        likelihood.bytes += batch.count("bytes");
      }
    }
    add_over_ranks(likelihood);
    Measurement measured = {.figures = figures(likelihood)};
    for (Figure& figure : measured.figures) figure.value = unsigned_nan(figure.value);
    measured.text = fmt::format("validation loss {:.4f}, perplexity {:.3f}, {:.4f} bits per byte",
                                measured.figures[0].value,
                                measured.figures[1].value,
                                measured.figures[2].value);
    return measured;
  }

 private:
  std::shared_ptr<const Examples> open(const NamedPath& source,
                                       const NamedPath& target,
                                       const ScanListener& listener) const {
    return open_pairs(source, target, tokenizer_, tokenizer_, mesh_.world, listener);
  }
  void add_over_ranks(Likelihood& likelihood) const {
    std::vector<double> sums;
    append_sums(likelihood, sums);
    const Tensor all =
        Tensor::from<double>(sums, {std::ssize(sums)}, Device::cpu(), MemoryTag::workspace);
    mesh_.world.all_reduce(all, Reduction::sum);
    take_sums(likelihood, all.span<double>());
  }

  DataOptions data_;
  ProcessMesh mesh_;
  std::uint64_t seed_;
  std::int64_t validation_batches_;
  BatchDivision division_;
  Tokenizer tokenizer_;
  std::shared_ptr<const Examples> examples_;
  TextIdentity identity_;
  std::shared_ptr<const Examples> validation_;
};

std::string problem_of(const DataOptions& data) {
  if (data.tokenizer == TokenizerKind::characters)
    return "data.tokenizer is characters, which are those of data.train alone; with run.task: "
           "translation set it to sentencepiece (data.tokenizer_kind: char) or bytes";
  const std::pair<const NamedPath*, const NamedPath*> sides[] = {
      {&data.train, &data.train_target},
      {&data.validation, &data.validation_target},
      {&data.test, &data.test_target}};
  constexpr const char* names[] = {"train", "validation", "test"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (sides[i].first->empty() == sides[i].second->empty()) continue;
    const bool lacks_target = sides[i].second->empty();
    return fmt::format("data.{0}{1} is set without data.{0}{2}; run.task: translation reads both",
                       names[i],
                       lacks_target ? "" : "_target",
                       lacks_target ? "_target" : "");
  }
  return "";
}

// The batch of a budget that takes most: sequences of the longest length.
Batch dry_batch(const DryBatch& wanted) {
  const BucketOptions& buckets = wanted.data.buckets;
  const std::int64_t multiple = buckets.length_multiple;
  const std::int64_t most = buckets.batch_tokens / 2 / multiple * multiple;
  const std::int64_t longest = (buckets.longest + multiple) / multiple * multiple;
  const std::int64_t time = std::max(multiple, std::min(longest, most));
  const std::int64_t ranks = wanted.mesh.data.size();
  const std::int64_t each = ranks * wanted.parts;
  const std::int64_t rows =
      (std::max<std::int64_t>(buckets.batch_tokens / (2 * time), 1) + each - 1) / each *
      wanted.parts;
  Batch batch;
  for (const char* name : {"source", "tokens", "targets"})
    batch.fields[name] = Tensor::empty({rows, time}, DType::i64, wanted.host, MemoryTag::workspace);
  for (const char* name : {"source_length", "length"}) {
    const Tensor lengths = Tensor::empty({rows}, DType::i64, wanted.host, MemoryTag::workspace);
    batch.fields[name] = lengths;
  }
  batch.first_row = rows * wanted.mesh.data_coordinate();
  batch.fresh = true;
  batch.counts = {{"tokens", rows * time}, {"rows", rows}};
  return batch;
}

}  // namespace

TaskKind translation_task() {
  return {
      .name = "translation",
      .documentation = "a line of one file from the same line of another",
      .problem = problem_of,
      .readout = vocabulary_readout(),
      .vocabulary = [](const Tokenizer& tokenizer) { return sentence_ids(tokenizer).vocabulary; },
      .ids_beside = 2,
      .open = [](const TaskSetting& setting) -> std::unique_ptr<Task> {
        return std::make_unique<Translation>(setting);
      },
      .dry_batch = dry_batch};
}

}  // namespace longspan
