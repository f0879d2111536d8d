// Training on episodes matches one process on every layout, with and without recomputation.
#include "framework/data/episode_source.h"
#include "framework/modeling/heads.h"
#include "tests/models/layouts_testing.h"

namespace longspan::episodes_mesh_test {
namespace {

using testing::Case;
using testing::expect_same_training;
using testing::Trained;

constexpr std::int64_t segment = 7;
constexpr std::int64_t streams = 4;

Environment world() { return parse_environment("memory_maze side 3 steps 18", "world"); }

// The batch of step `step`; rows start new episodes in different steps.
Batch batch_of(int step, const StreamRange& range) {
  EpisodeSource source(
      world(), {streams, segment}, Random(2), 0, 1, testing::backend_device().host());
  std::vector<std::int64_t> cursors;
  for (std::int64_t row = 0; row < streams; ++row) {
    const std::int64_t at = step + row;
    cursors.insert(cursors.end(), {at / 3, at % 3 * segment});
  }
  source.restore(Tensor::from<std::int64_t>(cursors, {streams, 2}, Device::cpu()));
  Batch batch = source.next();
  batch.fields = rows_of(batch.fields, range.begin, range.end);
  batch.first_row = range.begin;
  batch.counts["tokens"] = std::ranges::count_if(batch.field("targets").span<std::int64_t>(),
                                                 [](std::int64_t target) { return target >= 0; });
  return batch;
}

// Adds episode boundaries within the segment, at a different position in each row.
Batch batch_of_several(int step, const StreamRange& range) {
  Batch batch = batch_of(step, range);
  std::vector<std::int64_t> episodes;
  for (std::int64_t row = range.begin; row < range.end; ++row)
    for (std::int64_t at = 0; at < segment; ++at)
      episodes.push_back((at > row ? 1 : 0) + (at > row + 2 + step % 2 ? 1 : 0));
  batch.fields["episodes"] =
      Tensor::from<std::int64_t>(episodes, batch.field("tokens").shape(), Device::cpu());
  return batch;
}

Case case_of(ResidualKind residual, const MemoryOptions& memory) {
  TransformerXlOptions options;
  options.common = testing::dropped_options(NormPosition::pre);
  options.common.residual = residual;
  options.common.vocabulary = 256;
  options.memory = 9;
  return {.name = name_of(memory.recompute_granularity),
          .make =
              [options](const ModelBuildOptions& setting) {
                return std::make_unique<Model>(
                    setting, transformer_xl_body(options), tagging_head());
              },
          .memory = memory,
          .segment = segment,
          .classes = 4,
          .batch = batch_of};
}

TEST(Episodes, TrainingMatchesOneProcessOnEveryLayout) {
  Case several = case_of(ResidualKind::gated, {});
  several.name = "several in a segment";
  several.batch = batch_of_several;
  for (const Case& c :
       {case_of(ResidualKind::gated, {}),
        several,
        case_of(ResidualKind::gated, {.recompute_granularity = RecomputeGranularity::full}),
        case_of(ResidualKind::plain, {.recompute_granularity = RecomputeGranularity::selective})}) {
    const Trained expected = testing::train(c, ProcessMesh());
    Case chunked = c;
    chunked.name += ", in chunks";
    chunked.memory.bptt_chunk_length = 3;
    for (const Case& read : {c, chunked})
      for (const auto& layouts : {testing::data_and_tensor_layouts(), testing::time_layouts()})
        testing::for_each_layout(
            layouts, [&](const ProcessMesh& mesh) { expect_same_training(read, expected, mesh); });
  }
}

}  // namespace
}  // namespace longspan::episodes_mesh_test
