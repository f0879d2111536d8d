#include "framework/tasks/example_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/format.h"
#include "framework/core/span.h"
#include "framework/data/batching/bucketed_source.h"

namespace longspan {
namespace {

BatchShape full_batch(const BucketOptions& buckets, bool pairs) {
  const std::int64_t sides = pairs ? 2 : 1;
  const std::int64_t multiple = buckets.length_multiple;
  const std::int64_t most = buckets.batch_tokens / sides / multiple * multiple;
  const std::int64_t longest = buckets.max_columns_length(pairs ? 1 : 0);
  const std::int64_t time = std::max(multiple, longest == 0 ? most : std::min(longest, most));
  return {std::max<std::int64_t>(buckets.batch_tokens / (sides * time), 1),
          {pairs ? time : 0, time}};
}

}  // namespace

ExampleData::ExampleData(const TaskContext& setting, const Open& open)
    : data_(setting.data),
      seed_(setting.seed),
      division_{setting.mesh.data_coordinate(), setting.mesh.data.size(), setting.parts},
      examples_(open(setting.data.train, setting.data.train_target)),
      identity_(identify_files({setting.data.train.parts.at(0).path, setting.data.train_target},
                               setting.mesh.world)) {
  const ExampleLengths learnt(examples_, data_.buckets, EachCounts::no);
  if (data_.validation.empty()) return;
  validation_ = open(data_.validation, data_.validation_target);
  const ExampleLengths measured(validation_, data_.buckets, EachCounts::yes);
}

std::unique_ptr<BatchSource> ExampleData::source() const {
  return std::make_unique<BucketedSource>(examples_, data_.buckets, seed_, division_);
}

std::vector<BatchShape> ExampleData::batches() const { return batches_of(examples_, data_, seed_); }

std::string ExampleData::introduction(const std::string& what) const {
  const BucketedSource source(examples_, data_.buckets, seed_, division_);
  const std::string too_long = source.lengths().describe();
  return fmt::format("{}: {}, {} in the first epoch{}",
                     data_.train,
                     what,
                     pluralize(source.batches_of_epoch(), "step"),
                     too_long.empty() ? "" : "; " + too_long);
}

void add_coverage(const ExampleCoverage& coverage, Measurement& measured) {
  if (coverage.read < coverage.all)
    measured.metric_values.push_back({"fraction", coverage.fraction()});
  if (coverage.truncated > 0)
    measured.metric_values.push_back(
        {.name = "truncated", .value = static_cast<double>(coverage.truncated), .is_count = true});
  measured.text += coverage.text();
}

Batch meta_examples(const MetaBatch& wanted, bool pairs, const FieldShapes& fields) {
  const BatchShape shape = wanted.shape.value_or(full_batch(wanted.data.buckets, pairs));
  const std::int64_t each = wanted.mesh.data.size() * wanted.parts;
  const std::int64_t rows = (shape.rows + each - 1) / each * wanted.parts;
  Batch batch;
  for (const auto& [name, of_field] : fields(rows, shape.columns))
    batch.fields[name] = Tensor::empty(of_field, DType::i64, wanted.host, MemoryTag::workspace);
  batch.first_row = rows * wanted.mesh.data_coordinate();
  batch.resets_state = true;
  const std::int64_t tokens = rows * shape.columns.target;
  batch.counts = {{"tokens", tokens}, {"bytes", tokens}, {"rows", rows}};
  return batch;
}

std::vector<BatchShape> batches_of(std::shared_ptr<const Examples> examples,
                                   const DataOptions& data,
                                   std::uint64_t seed) {
  return BucketedSource(std::move(examples), data.buckets, seed, {}).shapes();
}

std::function<void(std::size_t)> progress(const std::function<void(const std::string&)>& say,
                                          const std::string& examples,
                                          std::size_t all,
                                          double seconds) {
  if (!say) return {};
  return [=, since = Stopwatch()](std::size_t done) mutable {
    if (since.seconds() < seconds) return;
    since = Stopwatch();
    say(fmt::format("{} of {} {} done", done, all, examples));
  };
}

}  // namespace longspan
