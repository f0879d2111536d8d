// What a plan says a rank will hold of pairs, against a run of the largest batch that they can
// have.
#include "framework/planning/plan.h"
#include "framework/train/trainer.h"
#include "models/encoder_decoder.h"
#include "tests/models/encoder_decoder_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan {
namespace {

constexpr std::int64_t tokens_of_batch = 1024;
constexpr std::int64_t columns = 128;  // of a side: 127 tokens and one around a sentence

Settings settings_of(const EncoderDecoderOptions& options) {
  Settings settings;
  settings.task = "translation";
  settings.family = "encoder_decoder";
  settings.data.buckets = {
      .batch_tokens = tokens_of_batch, .longest = columns - 1, .length_multiple = 8};
  settings.precision.compute = DType::f32;
  settings.body = encoder_decoder_body(options);
  return settings;
}

EncoderDecoderOptions options_of(Wiring wiring) {
  EncoderDecoderOptions options;
  options.common = {.layers = 2,
                    .width = 64,
                    .heads = 8,
                    .norm = NormPlacement::pre,
                    .dropout = 0.1,
                    .attention_dropout = 0.1};
  options.wiring = wiring;
  return options;
}

// Every row as long as can be.
Batch full_batch(int step, const ProcessMesh& mesh, const Device& device) {
  const std::int64_t rows = tokens_of_batch / (2 * columns);
  const StreamRange range = streams_of_rank(rows, mesh.data.rank(), mesh.data.size(), "rows");
  const std::vector<Lengths> lengths(static_cast<std::size_t>(range.count()),
                                     Lengths{columns - 1, columns});
  Batch batch;
  batch.fields = testing::pair_fields(
      lengths, {columns, columns}, static_cast<std::uint64_t>(step), range.begin);
  // Counted with what the run holds.
  for (auto& [name, field] : batch.fields)
    field = Tensor::from<std::int64_t>(
        field.span<std::int64_t>(), field.shape(), device, MemoryTag::workspace);
  batch.first_row = range.begin;
  batch.fresh = true;
  batch.counts = {{"tokens", range.count() * columns}};
  batch.place = "in a test";
  return batch;
}

MemoryReport measured(const Settings& settings, const ProcessMesh& mesh) {
  const Device device = Device::cpu();
  Trainer trainer(settings.make_model(model_setting(settings, testing::vocabulary, mesh, device)),
                  settings.training,
                  Random(1),
                  settings.precision);
  std::vector<Batch> batches;
  for (int step = 0; step < 4; ++step) batches.push_back(full_batch(step, mesh, device));
  for (const Batch& batch : batches) trainer.step(batch);
  MemoryReport report = device.allocator().report();
  // A plan is about the rank that holds most.
  for (MemoryCount& tag : report.by_tag)
    tag.peak = mesh.world.all_reduce(tag.peak, Reduction::maximum);
  report.total.peak = mesh.world.all_reduce(report.total.peak, Reduction::maximum);
  report.reserved = mesh.world.all_reduce(report.reserved, Reduction::maximum);
  return report;
}

void expect_predicted(const Settings& settings, const ProcessMesh& mesh) {
  const MemoryReport plan =
      plan_step(settings, mesh.shape, testing::vocabulary, Processor::cpu).memory;
  const MemoryReport truth = measured(settings, mesh);
  const auto near =
      [](std::int64_t found, std::int64_t wanted, double share, std::string_view what) {
        EXPECT_NEAR(static_cast<double>(found),
                    static_cast<double>(wanted),
                    share * static_cast<double>(wanted))
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

void expect_all_predicted(const std::vector<MeshShape>& layouts) {
  struct Case {
    std::string name;
    Settings settings;
  };
  std::vector<Case> cases = {{"last", settings_of(options_of(Wiring::last))},
                             {"mix", settings_of(options_of(Wiring::mix))},
                             {"full", settings_of(options_of(Wiring::full))}};
  cases.push_back({"layers again", cases.front().settings});
  cases.back().settings.memory.recompute = "layer";
  EncoderDecoderOptions reversible = options_of(Wiring::last);
  reversible.common.residual = ResidualKind::reversible;
  cases.push_back({"reversible", settings_of(reversible)});
  testing::for_each_layout(layouts, [&](const ProcessMesh& mesh) {
    for (const Case& each : cases) {
      SCOPED_TRACE(each.name);
      expect_predicted(each.settings, mesh);
    }
  });
}

TEST(PairsPlan, PredictsTheMemoryOfTheLargestBatch) {
  expect_all_predicted(
      {{}, {.data = 2}, {.data = 2, .tensor = 2}, {.context = 2}, {.tensor = 2, .sequence = true}});
}

}  // namespace
}  // namespace longspan
