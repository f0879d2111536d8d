// Predicted memory of a rank on pairs against runs on allowed batches.
#include <array>
#include <cstdlib>

#include "framework/planning/plan.h"
#include "framework/trainer/trainer.h"
#include "models/encoder_decoder.h"
#include "tests/models/encoder_decoder_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::pairs_plan_mesh_test {
namespace {

constexpr std::int64_t tokens_of_batch = 1024;
constexpr std::int64_t max_columns_length = 128;  // per side: 127 tokens and one special token

RunConfig settings_of(const EncoderDecoderOptions& options) {
  RunConfig settings;
  settings.task = "translation";
  settings.family = "encoder_decoder";
  settings.data.buckets = {
      .batch_tokens = tokens_of_batch, .longest = max_columns_length - 1, .length_multiple = 8};
  settings.precision.compute = DType::f32;
  settings.body = encoder_decoder_body(options);
  return settings;
}

EncoderDecoderOptions options_of(CrossAttentionMapping wiring) {
  EncoderDecoderOptions options;
  options.common = {.layers = 2,
                    .width = 64,
                    .heads = 8,
                    .norm = NormPosition::pre,
                    .dropout = 0.1,
                    .attention_dropout = 0.1};
  options.wiring = wiring;
  return options;
}

// A batch with a rank's maximum number of rows, each of maximum length.
Batch full_batch(int step, const BatchShape& shape, const ProcessMesh& mesh, const Device& device) {
  const std::int64_t ranks = mesh.data.size();
  const std::int64_t rows = (shape.rows + ranks - 1) / ranks;
  const Lengths& columns = shape.columns;
  const std::vector<Lengths> lengths(static_cast<std::size_t>(rows), columns);
  Batch batch;
  batch.first_row = rows * mesh.data_coordinate();
  batch.fields =
      testing::pair_fields(lengths, columns, static_cast<std::uint64_t>(step), batch.first_row);
  // Copied to the run's allocator, which counts its memory.
  for (auto& [name, field] : batch.fields)
    field = Tensor::from<std::int64_t>(
        field.span<std::int64_t>(), field.shape(), device, MemoryTag::workspace);
  batch.resets_state = true;
  batch.counts = {{"tokens", rows * columns.target}};
  batch.place = "in a test";
  return batch;
}

// Short and long sides, with as many rows as the token budget permits. Two ranks share 5 and 9
// rows unevenly.
std::vector<BatchShape> allowed_shapes() {
  std::vector<BatchShape> shapes;
  for (const Lengths& sides :
       {Lengths{8, 128}, {8, 120}, {8, 104}, {128, 128}, {96, 96}, {104, 8}, {120, 8}, {128, 8}})
    shapes.push_back({tokens_of_batch / sides.total(), sides});
  return shapes;
}

MemoryReport measured(const RunConfig& settings,
                      const std::vector<BatchShape>& shapes,
                      const ProcessMesh& mesh) {
  const Device device = Device::cpu();
  Trainer trainer(settings.make_model(model_setting(settings, testing::vocabulary, mesh, device)),
                  settings.training,
                  Random(1),
                  settings.precision);
  // Batches that the loader prefetches, in addition to the one in use.
  std::vector<Batch> ahead;
  for (int i = 0; i < 3; ++i) ahead.push_back(full_batch(i, shapes.back(), mesh, device));
  std::int64_t reserved = 0;
  for (const BatchShape& shape : shapes) {
    for (int step = 0; step < 2; ++step) trainer.step(full_batch(step, shape, mesh, device));
    reserved = std::max(reserved, device.allocator().report().reserved);
    device.allocator().trim();
  }
  MemoryReport report = device.allocator().report();
  report.reserved = reserved;
  // A plan predicts the rank with the most memory.
  for (MemoryCount& tag : report.by_tag)
    tag.peak = mesh.world.all_reduce(tag.peak, Reduction::maximum);
  report.total.peak = mesh.world.all_reduce(report.total.peak, Reduction::maximum);
  report.reserved = mesh.world.all_reduce(report.reserved, Reduction::maximum);
  return report;
}

// The plan receives the batch shapes `known`, or only the limits of the keys if it is empty.
void expect_predicted(const RunConfig& settings,
                      const std::vector<BatchShape>& known,
                      const ProcessMesh& mesh) {
  DataSizes ids(testing::vocabulary);
  ids.batches = known;
  const MemoryReport plan = plan_step(settings, mesh.shape, ids, Processor::cpu).memory;
  const MemoryReport truth = measured(settings, known.empty() ? allowed_shapes() : known, mesh);
  const auto near =
      [](std::int64_t found, std::int64_t expected, double tolerance, std::string_view what) {
        EXPECT_NEAR(static_cast<double>(found),
                    static_cast<double>(expected),
                    tolerance * static_cast<double>(expected))
            << what;
      };
  for (const MemoryTag tag :
       {MemoryTag::weights, MemoryTag::gradients, MemoryTag::optimizer, MemoryTag::activations}) {
    const auto index = static_cast<std::size_t>(tag);
    near(plan.by_tag[index].peak, truth.by_tag[index].peak, 0.05, name_of(tag));
  }
  near(plan.total.peak, truth.total.peak, 0.05, "peak");
  near(plan.reserved, truth.reserved, 0.1, "reserved");
}

struct Case {
  std::string name;
  RunConfig settings;
};

std::vector<Case> cases() {
  std::vector<Case> all = {{"last", settings_of(options_of(CrossAttentionMapping::last))},
                           {"mix", settings_of(options_of(CrossAttentionMapping::mix))},
                           {"full", settings_of(options_of(CrossAttentionMapping::full))}};
  all.push_back({"layers again", all.front().settings});
  all.back().settings.memory.recompute_granularity = RecomputeGranularity::full;
  EncoderDecoderOptions reversible = options_of(CrossAttentionMapping::last);
  reversible.common.residual = ResidualKind::reversible;
  all.push_back({"reversible", settings_of(reversible)});
  EncoderDecoderOptions relative = options_of(CrossAttentionMapping::last);
  relative.positions.kind = PositionEmbeddingType::relative;
  all.push_back({"relative", settings_of(relative)});
  EncoderDecoderOptions biased = options_of(CrossAttentionMapping::last);
  biased.positions = {.kind = PositionEmbeddingType::relative_bias, .relative_max_distance = 128};
  all.push_back({"biases by distance", settings_of(biased)});
  EncoderDecoderOptions chosen = options_of(CrossAttentionMapping::last);
  chosen.common.attention.encoder_kinds = {"linformer", "efficient"};
  chosen.common.attention.linformer.keys = 16;
  all.push_back({"linformer and efficient", settings_of(chosen)});
  return all;
}

// The ranks divide the cases, each of which runs on one rank.
void expect_predicted_on_one_process(const std::vector<BatchShape>& known) {
  const std::vector<Case> all = cases();
  const auto ranks = static_cast<std::size_t>(testing::world().size());
  for (auto i = static_cast<std::size_t>(testing::world().rank()); i < all.size(); i += ranks) {
    SCOPED_TRACE(all[i].name);
    expect_predicted(all[i].settings, known, ProcessMesh());
  }
}

// Two layouts run half of the cases each, or all of them if LONGSPAN_ALL is set.
void expect_predicted_on(const std::vector<BatchShape>& known,
                         const std::vector<std::array<MeshShape, 2>>& layouts) {
  const std::vector<Case> all = cases();
  const bool full = std::getenv("LONGSPAN_ALL") != nullptr;
  for (const std::array<MeshShape, 2>& pair : layouts)
    for (std::size_t half = 0; half < 2; ++half)
      testing::for_each_layout({pair[half]}, [&](const ProcessMesh& mesh) {
        for (std::size_t i = full ? 0 : half; i < all.size(); i += full ? 1 : 2) {
          SCOPED_TRACE(all[i].name);
          expect_predicted(all[i].settings, known, mesh);
        }
      });
}

TEST(PairsPlan, PredictsMemoryForLargestBatch) {
  expect_predicted_on_one_process({});
  expect_predicted_on({},
                      {{{{.data = 2}, {.data = 2, .tensor = 2}}},
                       {{{.tensor = 2, .sequence = true}, {.context = 2}}}});
}

TEST(PairsPlan, PredictsMemoryForKnownBatches) {
  // Long sources with short targets, and the reverse.
  for (const std::vector<BatchShape>& known :
       {std::vector<BatchShape>{{9, {96, 8}}, {5, {64, 16}}, {7, {32, 24}}},
        std::vector<BatchShape>{{9, {8, 96}}, {8, {16, 104}}}}) {
    expect_predicted_on_one_process(known);
    testing::for_each_layout({{.data = 2}}, [&](const ProcessMesh& mesh) {
      for (const Case& each : cases()) {
        SCOPED_TRACE(each.name);
        expect_predicted(each.settings, known, mesh);
      }
    });
  }
}

}  // namespace
}  // namespace longspan::pairs_plan_mesh_test
