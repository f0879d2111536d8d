// Predicted memory of a rank against its measured memory.
#include <cstdlib>

#include "framework/planning/plan.h"
#include "framework/trainer/trainer.h"
#include "models/decoder.h"
#include "models/transformer_xl.h"
#include "models/universal_transformer.h"
#include "tests/models/model_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::plan_mesh_test {
namespace {

constexpr std::int64_t streams = 2;
constexpr std::int64_t segment = 256;

struct Case {
  std::string name;
  RunConfig settings;
  bool shares = false;  // is also planned with ZeRO
};

ModelOptions model_options() {
  return {.layers = 3,
          .width = 128,
          .heads = 8,
          .norm = NormPosition::pre,
          .dropout = 0.1,
          .attention_dropout = 0.1};
}

RunConfig base() {
  RunConfig settings;
  settings.family = "test";
  settings.data.batch = streams;
  settings.data.segment = segment;
  settings.precision.compute = DType::f32;
  return settings;
}

void use_decoder(RunConfig& settings, const ModelOptions& common) {
  DecoderOptions options;
  options.common = common;
  settings.body = decoder_body(options);
}

RunConfig decoder(const std::function<void(RunConfig&, ModelOptions&)>& change = {}) {
  RunConfig settings = base();
  ModelOptions options = model_options();
  if (change) change(settings, options);
  use_decoder(settings, options);
  return settings;
}

RunConfig transformer_xl(const std::function<void(RunConfig&, ModelOptions&)>& change = {}) {
  RunConfig settings = base();
  ModelOptions common = model_options();
  if (change) change(settings, common);
  TransformerXlOptions options;
  options.common = common;
  options.memory = 192;
  settings.body = transformer_xl_body(options);
  return settings;
}

// Positions take all steps, the maximum that a plan assumes.
RunConfig universal(RecurrenceType count, RecomputeGranularity recompute) {
  RunConfig settings = base();
  settings.memory.recompute_granularity = recompute;
  UniversalTransformerOptions options;
  options.common = model_options();
  options.common.layers = 1;
  options.count = count;
  options.halting = {.steps = 3, .bias = -30};
  settings.body = universal_transformer_body(options);
  return settings;
}

RunConfig with_spans(SpanKind kind) {
  RunConfig settings = base();
  DecoderOptions options;
  options.common = model_options();
  options.spans = {.kind = kind, .form = {.limit = 96}, .initial = 64};
  settings.body = decoder_body(options);
  return settings;
}

// Large states, which continue over segments. With key heads that four ranks do not divide,
// context ranks pass states on.
RunConfig stateful(std::int64_t key_heads) {
  RunConfig settings = base();
  DecoderOptions options;
  options.common = model_options();
  options.common.attention.kinds = {"gated_delta_net", "mamba2"};
  options.common.attention.mamba2 = {.heads = 6 * key_heads, .dim = 8, .state = 64, .groups = 2};
  options.common.attention.delta_rule = {.key_heads = key_heads, .value_heads = 8};
  options.stateful = true;
  settings.body = decoder_body(options);
  return settings;
}

// All inner layers have a loss in the first step.
RunConfig with_inner_losses() {
  RunConfig settings = base();
  DecoderOptions options;
  options.common = model_options();
  options.auxiliary = {.inner = AuxiliaryLossOptions::Inner::drop, .targets = 2};
  settings.body = decoder_body(options);
  return settings;
}

void reversible(RunConfig&, ModelOptions& options) { options.residual = ResidualKind::reversible; }

std::vector<Case> cases() {
  const auto recompute = [](RecomputeGranularity granularity, std::int64_t layers = 1) {
    return [=](RunConfig& settings, ModelOptions&) {
      settings.memory.recompute_granularity = granularity;
      settings.memory.recompute_num_layers = layers;
    };
  };
  const auto kinds = [](std::vector<std::string> names) {
    return [names](RunConfig&, ModelOptions& options) { options.attention.kinds = names; };
  };
  return {
      {"decoder", decoder(), true},
      {"decoder, bf16",
       decoder([](RunConfig& s, ModelOptions&) { s.precision.compute = DType::bf16; }),
       true},
      {"decoder, adapters",
       decoder([](RunConfig& s, ModelOptions&) {
         s.training.tuning.adapters = {.rank = 16, .dropout = 0.1, .layers = {"layers"}};
       }),
       true},
      {"decoder, attention recomputed", decoder(recompute(RecomputeGranularity::selective))},
      {"decoder, layers recomputed", decoder(recompute(RecomputeGranularity::full))},
      {"decoder, reversible", decoder(reversible)},
      {"decoder, chunks", decoder([](RunConfig& s, ModelOptions&) {
         s.memory.feed_forward_chunks = 8;
         s.memory.loss_chunks = 8;
       })},
      {"decoder, in two parts", decoder([](RunConfig& s, ModelOptions&) {
         s.data.batch = 2 * streams;  // one for each of two data ranks and two parts
         s.training.accumulation = 2;
       })},
      {"decoder, local and strided", decoder(kinds({"sliding_window", "strided"}))},
      {"decoder, lsh, reversible", decoder([&](RunConfig& s, ModelOptions& options) {
         reversible(s, options);
         kinds({"lsh"})(s, options);
         options.attention_dropout = 0;
         options.attention.lsh.chunk = 32;
       })},
      {"decoder, linear and performer", decoder(kinds({"linear", "performer"}))},
      {"decoder, routing and sinkhorn", decoder(kinds({"routing", "sinkhorn"}))},
      {"decoder, strict routing", decoder([&](RunConfig& s, ModelOptions& options) {
         kinds({"routing"})(s, options);
         options.attention.routing = {.clusters = 8, .strict = true};
       })},
      {"decoder, synthesizer and compressed", decoder(kinds({"synthesizer", "memory_compressed"}))},
      {"decoder, dense synthesizer, layers recomputed",
       decoder([&](RunConfig& s, ModelOptions& options) {
         kinds({"synthesizer"})(s, options);
         options.attention.synthesizer.scores = {"dense", "factorized_random"};
         s.memory.recompute_granularity = RecomputeGranularity::full;
       })},
      {"decoder, adaptive spans", with_spans(SpanKind::adaptive)},
      {"decoder, dynamic spans", with_spans(SpanKind::dynamic)},
      {"decoder, inner losses", with_inner_losses()},
      {"decoder, random features, reversible", decoder([&](RunConfig& s, ModelOptions& options) {
         reversible(s, options);
         kinds({"rfa"})(s, options);
       })},
      {"decoder, f16",
       decoder([](RunConfig& s, ModelOptions&) { s.precision.compute = DType::f16; })},
      {"decoder, dilated, fixed, block and summary",
       decoder([&](RunConfig& s, ModelOptions& options) {
         kinds({"dilated/fixed/block/summary"})(s, options);
         options.attention.sliding_window = {17};
         options.attention.dilation = 3;
         options.attention.stride = 32;
       })},
      {"decoder, global with projections", decoder([&](RunConfig& s, ModelOptions& options) {
         kinds({"global_local", "full"})(s, options);
         options.attention.sliding_window = {17};
         options.attention.global = {0, 77};
         options.attention.global_projections = true;
         options.attention.random = 2;
         options.attention.block = 16;
       })},
      {"transformer_xl", transformer_xl()},
      {"transformer_xl, layers recomputed", transformer_xl(recompute(RecomputeGranularity::full))},
      {"transformer_xl, reversible", transformer_xl(reversible)},
      {"universal_transformer, fixed",
       universal(RecurrenceType::fixed, RecomputeGranularity::none)},
      {"universal_transformer, adaptive",
       universal(RecurrenceType::adaptive, RecomputeGranularity::none)},
      {"universal_transformer, adaptive, layers recomputed",
       universal(RecurrenceType::adaptive, RecomputeGranularity::full)},
      {"decoder, stateful", stateful(4)},
      {"decoder, stateful, passed states", stateful(2)},
      {"transformer_xl, gated", transformer_xl([](RunConfig&, ModelOptions& options) {
         options.residual = ResidualKind::gated;
       })},
  };
}

Batch batch_of(int step, std::int64_t rows, const ProcessMesh& mesh, const Device& device) {
  const StreamRange range =
      streams_of_rank(rows, mesh.data.rank(), mesh.data.size(), "data.global_batch_size");
  Batch batch = testing::batch_of_rows(
      testing::random_ids(rows, segment + 1, static_cast<std::uint64_t>(step)), range);
  // Copied to the run's allocator, which counts its memory.
  for (auto& [name, field] : batch.fields)
    field = Tensor::from<std::int64_t>(
        field.span<std::int64_t>(), field.shape(), device, MemoryTag::workspace);
  batch.resets_state = step == 0;
  return batch;
}

// Peak memory of a run, with the batches that a loader prefetches.
MemoryReport measured(const RunConfig& settings, const ProcessMesh& mesh) {
  const Device device = Device::cpu();
  Trainer trainer(settings.make_model(model_setting(settings, testing::vocabulary, mesh, device)),
                  settings.training,
                  Random(1),
                  settings.precision);
  std::vector<Batch> batches;
  for (int step = 0; step < 4; ++step)
    batches.push_back(batch_of(step, settings.data.batch, mesh, device));
  for (const Batch& batch : batches) trainer.step(batch);
  MemoryReport report = device.allocator().report();
  // A plan predicts the rank with the most memory.
  for (MemoryCount& tag : report.by_tag)
    tag.peak = mesh.world.all_reduce(tag.peak, Reduction::maximum);
  report.total.peak = mesh.world.all_reduce(report.total.peak, Reduction::maximum);
  report.reserved = mesh.world.all_reduce(report.reserved, Reduction::maximum);
  return report;
}

const MemoryCount& count_of_tag(const MemoryReport& report, MemoryTag tag) {
  return report.by_tag[static_cast<std::size_t>(tag)];
}

void expect_predicted(const RunConfig& settings, const ProcessMesh& mesh) {
  const MemoryReport plan =
      plan_step(settings, mesh.shape, testing::vocabulary, Processor::cpu).memory;
  const MemoryReport truth = measured(settings, mesh);
  // Reductions in flight may hold two more buckets with ZeRO 2, here one matrix each.
  const double in_flight = settings.parallel.zero == 2 ? 2.0 * 512 * 128 * 4 : 0;
  for (const MemoryTag tag : {MemoryTag::weights, MemoryTag::gradients, MemoryTag::optimizer}) {
    const auto expected = static_cast<double>(count_of_tag(truth, tag).peak);
    EXPECT_NEAR(static_cast<double>(count_of_tag(plan, tag).peak),
                expected,
                0.02 * expected + (tag == MemoryTag::gradients ? in_flight : 0))
        << name_of(tag);
  }
  for (const MemoryTag tag : {MemoryTag::activations, MemoryTag::recurrent_state}) {
    const auto expected = static_cast<double>(count_of_tag(truth, tag).peak);
    EXPECT_NEAR(static_cast<double>(count_of_tag(plan, tag).peak), expected, 0.05 * expected)
        << name_of(tag);
  }
  const auto total = static_cast<double>(truth.total.peak);
  EXPECT_NEAR(static_cast<double>(plan.total.peak), total, 0.03 * total);
  // Reserved memory decides whether a run fits. It includes scratch that depends on the library.
  const auto reserved = static_cast<double>(truth.reserved);
  EXPECT_NEAR(static_cast<double>(plan.reserved), reserved, 0.1 * reserved + in_flight);
}

void expect_predicted(const Case& c, const ProcessMesh& mesh) {
  const bool shares = c.shares && mesh.data.size() * mesh.context.size() > 1;
  const std::int64_t most = shares ? 2 : 0;
  RunConfig settings = c.settings;
  for (settings.parallel.zero = 0; settings.parallel.zero <= most; ++settings.parallel.zero) {
    SCOPED_TRACE(fmt::format(
        "{} on {}, ZeRO {}", c.name, testing::to_string(mesh.shape), settings.parallel.zero));
    if (settings.data.batch / mesh.shape.data % settings.training.accumulation == 0)
      expect_predicted(settings, mesh);
  }
}

// Each layout runs half of the cases, or all of them if LONGSPAN_ALL is set. In the tests below
// both halves cover data, tensor, context and sequence ranks.
void expect_all_predicted(const std::vector<MeshShape>& layouts) {
  const std::vector<Case> all = cases();
  const bool full = std::getenv("LONGSPAN_ALL") != nullptr;
  for (std::size_t i = 0; i < layouts.size(); ++i)
    testing::for_each_layout({layouts[i]}, [&](const ProcessMesh& mesh) {
      for (std::size_t j = full ? 0 : i % 2; j < all.size(); j += full ? 1 : 2)
        expect_predicted(all[j], mesh);
    });
}

// The ranks divide the cases, each of which runs on one rank.
TEST(Plan, PredictsMemoryForOneProcess) {
  const std::vector<Case> all = cases();
  const auto ranks = static_cast<std::size_t>(testing::world().size());
  for (auto i = static_cast<std::size_t>(testing::world().rank()); i < all.size(); i += ranks)
    expect_predicted(all[i], ProcessMesh());
}

TEST(Plan, PredictsMemoryForDataAndTensorRanks) {
  expect_all_predicted({{.data = 2}, {.data = 2, .tensor = 2}});
}

TEST(Plan, PredictsMemoryForContextAndSequenceRanks) {
  expect_all_predicted({{.context = 2},
                        {.context = 2, .tensor = 2, .sequence = true},
                        {.tensor = 2, .sequence = true},
                        {.context = 2, .tensor = 2}});
}

}  // namespace
}  // namespace longspan::plan_mesh_test
