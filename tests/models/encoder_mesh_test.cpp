// Encoders with each head match one process on every layout and in every memory mode, with dropout
// and unequal lengths.
#include <fmt/format.h>

#include "framework/modeling/heads.h"
#include "models/encoder.h"
#include "tests/models/layouts_testing.h"

namespace longspan::encoder_mesh_test {
namespace {

using testing::Case;
using testing::dropped_options;
using testing::expect_same_training;
using testing::train;
using testing::Trained;

constexpr std::int64_t time = 11;  // divides neither by tensor ranks nor into chunks
constexpr std::int64_t classes = 5;
const std::vector<std::int64_t> lengths = {11, 1, 0, 6};

// Words of one to three tokens, with one tag each.
Batch batch_of_texts(int step, const StreamRange& rows) {
  const Tensor ids = testing::random_ids(4, time, static_cast<std::uint64_t>(step + 1));
  Batch batch;
  batch.fields = {{"tokens", ids.slice(rows.begin, rows.end)}};
  const auto field = [&](const Shape& shape) {
    return Tensor::empty(shape, DType::i64, testing::backend_device());
  };
  const Tensor length = field({rows.count()}), label = field({rows.count()});
  const Tensor targets = field({rows.count(), time});
  std::ranges::fill(targets.span<std::int64_t>(), ignored_target);
  batch.counts = {{"rows", 0}, {"tokens", 0}};
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    const std::int64_t text = rows.begin + row;
    const std::int64_t tokens = lengths[static_cast<std::size_t>((text + step) % 4)];
    length.data<std::int64_t>()[row] = tokens;
    label.data<std::int64_t>()[row] =
        tokens == 0 ? ignored_target : (2 * text + step + tokens) % classes;
    batch.counts["rows"] += tokens > 0 ? 1 : 0;
    for (std::int64_t i = 0, word = 0; i < tokens; i += 1 + word % 3, ++word) {
      targets.data<std::int64_t>()[row * time + i] = (text + 3 * i + step) % classes;
      batch.counts["tokens"] += 1;
    }
  }
  batch.fields["length"] = length;
  batch.fields["label"] = label;
  batch.fields["targets"] = targets;
  batch.first_row = rows.begin;
  batch.resets_state = true;
  return batch;
}

struct Kind {
  std::string name;
  bool has_tags = false;
  TaggingHeadType tags = TaggingHeadType::softmax;
  Pooling pooling = Pooling::first;
  PositionEmbeddingType positions = PositionEmbeddingType::sinusoidal;
  std::vector<std::string> attention = {"full"};  // full: every position
  LinformerSharing linformer = LinformerSharing::heads;
  RecurrenceType steps = RecurrenceType::none;
  bool as_bert = false;
  bool patches = false;
};

constexpr ImageShape image = {4, 6, 3};
constexpr std::int64_t side = 2;  // 6 patches

// Images with the same labels; one row in four has no image.
Batch batch_of_images(int step, const StreamRange& rows) {
  Batch batch = batch_of_texts(step, rows);
  const std::int64_t columns = image.values() + 5;
  const Tensor pixels =
      Tensor::empty({rows.count(), columns}, DType::i64, testing::backend_device());
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    std::int64_t& length = batch.fields.at("length").data<std::int64_t>()[row];
    length = length > 0 ? image.values() : 0;
    for (std::int64_t i = 0; i < columns; ++i)
      pixels.data<std::int64_t>()[row * columns + i] =
          (37 * (rows.begin + row) + 11 * i * i + 5 * step) % 256;
  }
  batch.fields.erase("tokens");
  batch.fields.erase("targets");
  batch.fields["pixels"] = pixels;
  return batch;
}

struct Mode {
  std::string name;
  ResidualKind residual = ResidualKind::plain;
  MemoryOptions memory = {};
};

struct Layout {
  MeshShape mesh;
  int zero = 0;
};

std::vector<Kind> kinds() {
  return {
      {.name = "tags", .has_tags = true},
      {.name = "tags by a random field", .has_tags = true, .tags = TaggingHeadType::crf},
      {.name = "class of the first", .positions = PositionEmbeddingType::learned},
      {.name = "class of the mean",
       .pooling = Pooling::mean,
       .positions = PositionEmbeddingType::relative},
      {.name = "class of the maximum",
       .pooling = Pooling::maximum,
       .positions = PositionEmbeddingType::relative_bias},
      {.name = "class of what is seen", .pooling = Pooling::attention},
      {.name = "class as BERT has it",
       .positions = PositionEmbeddingType::learned,
       .as_bert = true},
      {.name = "class of patches", .positions = PositionEmbeddingType::learned, .patches = true}};
}

// Two layers; each type masks some keys.
std::vector<Kind> attention_kinds() {
  std::vector<Kind> all;
  for (const auto& names :
       std::vector<std::vector<std::string>>{{"sliding_window", "global_local"},
                                             {"strided", "fixed"},
                                             {"block", "sliding_window+strided"},
                                             {"summary", "dilated"}})
    all.push_back({.name = fmt::format("tags by {}", fmt::join(names, ", ")),
                   .has_tags = true,
                   .tags = TaggingHeadType::crf,
                   .positions = all.size() % 2 == 0 ? PositionEmbeddingType::relative
                                                    : PositionEmbeddingType::sinusoidal,
                   .attention = names});
  for (const LinformerSharing sharing : {LinformerSharing::none,
                                         LinformerSharing::heads,
                                         LinformerSharing::keys_values,
                                         LinformerSharing::layers})
    all.push_back({.name = fmt::format("class by linformer, sharing {}", static_cast<int>(sharing)),
                   .pooling = Pooling::mean,
                   .attention = {"linformer"},
                   .linformer = sharing});
  all.push_back({.name = "tags by routing, sinkhorn",
                 .has_tags = true,
                 .attention = {"routing", "sinkhorn"}});
  all.push_back({.name = "tags by compressed, synthesizer",
                 .has_tags = true,
                 .attention = {"memory_compressed", "synthesizer"}});
  for (const auto& names : std::vector<std::vector<std::string>>{
           {"aft_full", "aft_local"}, {"aft_simple", "gmlp"}, {"fnet", "mlp_mixer"}})
    all.push_back({.name = fmt::format("tags by {}", fmt::join(names, ", ")),
                   .has_tags = true,
                   .attention = names});
  return all;
}

std::vector<Kind> recurrent_kinds() {
  return {
      {.name = "tags after fixed steps", .has_tags = true, .steps = RecurrenceType::fixed},
      {.name = "tags after adaptive steps", .has_tags = true, .steps = RecurrenceType::adaptive},
      {.name = "class after adaptive steps",
       .pooling = Pooling::mean,
       .positions = PositionEmbeddingType::learned,
       .steps = RecurrenceType::adaptive}};
}

std::vector<Mode> modes() {
  return {
      {"plain"},
      {"layers again", ResidualKind::plain, {.recompute_granularity = RecomputeGranularity::full}},
      {"reversible, chunked", ResidualKind::reversible, {.feed_forward_chunks = 3}},
      {"gated", ResidualKind::gated}};
}

std::vector<Layout> layouts() {
  return {{{}, 0},
          {{.data = 2}, 1},
          {{.data = 4}, 2},
          {{.tensor = 2}},
          {{.context = 2}},
          {{.context = 4}, 2},
          {{.tensor = 2, .sequence = true}},
          {{.data = 2, .tensor = 2}},
          {{.data = 2, .context = 2}},
          {{.context = 2, .tensor = 2}},
          {{.context = 2, .tensor = 2, .sequence = true}}};
}

Case with(const Kind& kind, const Mode& mode, int zero) {
  EncoderOptions options;
  options.common = dropped_options(NormPosition::pre);
  options.common.residual = mode.residual;
  // Key biases have zero gradient up to rounding, which Adam amplifies; small weights keep the
  // error below the bound.
  options.common.initial_deviation = 0.05;
  options.positions = {.kind = kind.positions, .relative_max_distance = 3, .buckets = 4};
  options.tags = kind.tags;
  options.common.attention = {.kinds = kind.attention,
                              .sliding_window = {3},
                              .stride = 3,
                              .summary = 1,
                              .global = {1},
                              .random = 1,
                              .block = 2,
                              .linformer = {.keys = 3, .sharing = kind.linformer},
                              .routing = {.clusters = 3},
                              .sinkhorn = {.block = 2},
                              .synthesizer = {.scores = {"factorized_dense", "dot_product"}},
                              .mixing = {.window = 3, .gate_heads = 2, .gate_attention = 3}};
  // The first feature of a Fourier transform is the sum of normalized features, 0 up to rounding,
  // which a ReLU would pass or not.
  options.common.gate.relu = std::ranges::count(kind.attention, "fnet") == 0;
  options.pooling = kind.pooling;
  if (kind.as_bert) {
    options.input = {.scaled = false, .norm = true, .token_types = 2};
    options.positions.first = 2;
    options.class_layer = true;
    if (mode.residual == ResidualKind::plain) options.common.norm = NormPosition::post;
  }
  if (kind.patches) options.patches = {.side = side, .mean = {0.4, 0.5, 0.6}, .deviation = {0.3}};
  options.recurrence.count = kind.steps;
  options.recurrence.halting = {.steps = 3, .bias = -0.5};
  if (kind.positions == PositionEmbeddingType::sinusoidal)
    options.recurrence.signals.max_position_shift = 7;
  // ACT stores the states of all steps and does not support reversible residuals.
  if (options.recurrence.adaptive() && mode.residual == ResidualKind::reversible)
    options.common.residual = ResidualKind::plain;
  return {.name = fmt::format("{}, {}, ZeRO {}", kind.name, mode.name, zero),
          .make =
              [options, has_tags = kind.has_tags](const ModelBuildOptions& setting) {
                return std::make_unique<Model>(setting,
                                               encoder_body(options),
                                               has_tags ? tagging_head() : classification_head());
              },
          .zero = zero,
          .memory = mode.memory,
          .segment = time,
          .steps = 3,
          .classes = classes,
          .batch = kind.patches ? batch_of_images : batch_of_texts,
          .image = kind.patches ? std::optional(image) : std::nullopt};
}

Mode reference_mode(const Mode& mode) {
  return {"kept", mode.residual, {.stores_streams = mode.residual == ResidualKind::reversible}};
}

// Covers every model in every mode and on every layout.
void expect_equal(const std::vector<Kind>& all) {
  const std::vector<Mode> every = modes();
  std::vector<Case> references;
  for (const Kind& kind : all)
    for (const Mode& mode : every) references.push_back(with(kind, reference_mode(mode), 0));
  const std::vector<Trained> expected = testing::train_on_one_process(references);
  std::size_t place = 0;
  for (const Layout& layout : layouts()) {
    testing::for_each_layout({layout.mesh}, [&](const ProcessMesh& mesh) {
      for (std::size_t kind = 0; kind < all.size(); ++kind) {
        const std::size_t mode = (kind + place) % every.size();
        expect_same_training(
            with(all[kind], every[mode], layout.zero), expected[kind * every.size() + mode], mesh);
      }
    });
    ++place;
  }
}

TEST(EncoderLayouts, EveryHeadMatchesOneProcess) { expect_equal(kinds()); }

TEST(EncoderLayouts, EveryAttentionTypeMatchesOneProcess) { expect_equal(attention_kinds()); }

TEST(EncoderLayouts, EveryRecurrenceMatchesOneProcess) { expect_equal(recurrent_kinds()); }

TEST(EncoderLayouts, AccumulationMatchesOneProcess) {
  for (const Kind& kind : kinds()) {
    Case c = with(kind, {"plain"}, 0);
    const Trained expected = train(c, ProcessMesh());
    c.accumulation = 2;
    testing::for_each_layout(
        {{}, {.data = 2}, {.context = 2, .tensor = 2, .sequence = true}},
        [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
  }
}

struct Predicted {
  double nats = 0;
  std::vector<std::int64_t> choices;
};

Predicted predicted(const Case& c, const ProcessMesh& mesh, const StreamRange& rows) {
  const auto model = c.make(c.setting(mesh));
  const Predictions answers = model->predict({.fields = c.batch(0, rows).fields}, ForwardContext{});
  const double here = sum(answers.terms.front().values).value().item();
  const auto choices = answers.choices.span<std::int64_t>();
  return {mesh.context.all_reduce(here, Reduction::sum), {choices.begin(), choices.end()}};
}

TEST(EncoderLayouts, PredictionsMatchOneProcess) {
  for (const Kind& kind : kinds()) {
    const Case c = with(kind, {"plain"}, 0);
    const Predicted expected = predicted(c, ProcessMesh(), {0, 4});
    testing::for_each_layout(
        {{.tensor = 2}, {.context = 4}, {.context = 2, .tensor = 2, .sequence = true}},
        [&](const ProcessMesh& mesh) {
          SCOPED_TRACE(c.name + " on " + testing::to_string(mesh.shape));
          const Predicted found = predicted(c, mesh, {0, 4});
          // Only rank 0 of a tensor group counts losses.
          if (mesh.tensor.rank() == 0) {
            EXPECT_NEAR(found.nats, expected.nats, 1e-9 * expected.nats);
          }
          EXPECT_EQ(found.choices, expected.choices);
        });
  }
}

TEST(EncoderLayouts, RepeatedRunsAreBitIdentical) {
  testing::for_each_layout({{.context = 2, .tensor = 2, .sequence = true}},
                           [&](const ProcessMesh& mesh) {
                             for (const Kind& kind : kinds()) {
                               const Case c = with(kind, {"plain"}, 0);
                               SCOPED_TRACE(c.name);
                               const Trained once = train(c, mesh), again = train(c, mesh);
                               EXPECT_EQ(once.losses, again.losses);
                               EXPECT_EQ(once.last_weights, again.last_weights);
                             }
                           });
}

}  // namespace
}  // namespace longspan::encoder_mesh_test
