// The equality matrix: every model trains the same on every layout. A new model is a line in
// `cases`.
#include "framework/train/trainer.h"
#include "tests/models/model_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan {
namespace {

using testing::cpu_device;
using testing::Values;
using testing::values_of;

constexpr int steps = 5;
constexpr std::int64_t streams = 4;
constexpr std::int64_t segment = 5;
// Does not divide by the ranks.
constexpr std::int64_t ids = 11;

struct Case {
  std::string name;
  std::function<std::unique_ptr<Model>(const ModelSetting&)> make;
  std::int64_t accumulation = 1;
  int zero = 0;
  MemoryOptions memory = {};

  ModelSetting setting(const ProcessMesh& mesh) const {
    return {.vocabulary = ids,
            .segment = segment,
            .compute = DType::f64,
            .device = cpu_device(),
            .mesh = mesh,
            .random = Random(1).child("weights"),
            .memory = memory,
            .sharing = {.zero = zero, .bucket_megabytes = 0.001}};  // many buckets
  }
};

// Dropout everywhere; four heads, so that they divide by the tensor ranks.
ModelOptions common(NormPlacement norm) {
  return {.layers = 2,
          .width = 12,
          .heads = 4,
          .feed_forward = 18,
          .activation = norm == NormPlacement::pre ? Activation::gelu_tanh : Activation::relu,
          .norm = norm,
          .dropout = 0.2,
          .attention_dropout = 0.15,
          .initial_deviation = 0.1};
}

std::vector<Case> cases() {
  const auto transformer_xl = [](NormPlacement norm, std::int64_t memory, bool tied) {
    return [=](const ModelSetting& setting) {
      TransformerXlOptions options;
      options.common = common(norm);
      options.common.tied_embeddings = tied;
      options.memory = memory;
      options.share_position_biases = tied;
      return make_transformer_xl(options, setting);
    };
  };
  const auto decoder = [](DecoderOptions::Positions positions) {
    return [=](const ModelSetting& setting) {
      DecoderOptions options;
      options.common = common(NormPlacement::pre);
      options.positions = positions;
      return make_decoder(options, setting);
    };
  };
  const auto kinds = [](std::vector<std::string> names) {
    const bool global = names.front().ends_with("global");
    return AttentionOptions{.kinds = std::move(names),
                            .window = {1},
                            .stride = 2,
                            .summary = 1,
                            .summary_groups = 2,
                            .global = {1},
                            .global_projections = global,
                            .random = 1,
                            .block = 1,
                            .lsh = {.chunk = 2}};
  };
  const auto sparse_decoder = [=](std::vector<std::string> names) {
    return [=](const ModelSetting& setting) {
      DecoderOptions options;
      options.common = common(NormPlacement::pre);
      options.common.attention = kinds(names);
      return make_decoder(options, setting);
    };
  };
  const auto sparse_transformer_xl = [=](const ModelSetting& setting) {
    TransformerXlOptions options;
    options.common = common(NormPlacement::post);
    options.common.attention = kinds({"local", "strided/dilated"});
    options.memory = 7;
    return make_transformer_xl(options, setting);
  };
  return {
      {"transformer_xl, memory 7", transformer_xl(NormPlacement::post, 7, true)},
      {"transformer_xl, memory 3, norms before, untied",
       transformer_xl(NormPlacement::pre, 3, false)},
      {"decoder, sinusoidal", decoder(DecoderOptions::Positions::sinusoidal)},
      {"decoder, learned", decoder(DecoderOptions::Positions::learned)},
      {"decoder, local and strided by layer", sparse_decoder({"local", "strided"})},
      {"decoder, local+strided by head, then strided",
       sparse_decoder({"local+strided/causal", "strided"})},
      {"decoder, fixed and global by head", sparse_decoder({"fixed/global"})},
      {"decoder, lsh", sparse_decoder({"lsh", "causal"})},
      {"transformer_xl, local, then strided by head", sparse_transformer_xl},
  };
}

Batch batch_of(int step, const StreamRange& range) {
  const Tensor text = testing::random_ids(streams, segment + 1, static_cast<std::uint64_t>(step));
  Batch batch;
  batch.tokens = testing::columns(text, 0, segment).slice(range.begin, range.end);
  batch.targets = testing::columns(text, 1, segment).slice(range.begin, range.end);
  // Streams end at different places: ranks have different numbers of tokens that count.
  for (std::int64_t row = 0; row < range.count(); ++row)
    if (range.begin + row == 3 && step == 2)
      std::fill_n(batch.targets.data<std::int64_t>() + row * segment + 2, 3, ignored_target);
  batch.first_stream = range.begin;
  batch.epoch_start = step == 0;
  for (const std::int64_t target : batch.targets.span<std::int64_t>())
    batch.predicted_tokens += target >= 0;
  return batch;
}

// What a run leaves behind, with this rank's pieces of the parameters, and of the gradients what it
// owns.
struct Trained {
  Values losses;
  Values norms;
  std::vector<Values> first_gradients;  // one a parameter
  std::vector<Values> last_weights;
};

Trained train(const Case& c, const ProcessMesh& mesh) {
  TrainingOptions options;
  options.steps = steps;
  options.learning_rate = 0.01;
  options.optimizer.weight_decay = 0.1;
  options.clip_norm = 0.5;  // active
  options.accumulation = c.accumulation;
  Trainer trainer(c.make(c.setting(mesh)), options, Random(1).child("steps"));
  const StreamRange range =
      streams_of_rank(streams, mesh.data.rank(), mesh.data.size(), "data.batch");
  Trained run;
  for (int step = 0; step < steps; ++step) {
    const StepResult result = trainer.step(batch_of(step, range));
    EXPECT_FALSE(result.skipped);
    run.losses.push_back(result.loss);
    run.norms.push_back(result.gradient_norm);
    for (const auto& parameter : trainer.model().parameters().all()) {
      if (step == 0) run.first_gradients.push_back(values_of(parameter->own_gradient));
      if (step + 1 == steps) run.last_weights.push_back(values_of(parameter->master));
    }
  }
  return run;
}

// This rank's piece of a whole parameter's values.
Values piece_of(const Values& whole, const Parameter& parameter) {
  if (!parameter.split()) return whole;
  std::int64_t inner = 1;
  for (int axis = parameter.split_axis + 1; axis < parameter.global_shape.dimensions(); ++axis)
    inner *= parameter.global_shape[axis];
  const std::int64_t run = inner * parameter.part.count;
  Values piece;
  for (std::int64_t begin = parameter.part.begin * inner; begin < std::ssize(whole);
       begin += inner * parameter.part.total)
    piece.insert(piece.end(), whole.begin() + begin, whole.begin() + begin + run);
  return piece;
}

void expect_close(const Values& found, const Values& expected) {
  testing::expect_close(found, expected, 1e-9);
}

void expect_same_training(const Case& c, const Trained& expected, const ProcessMesh& mesh) {
  SCOPED_TRACE(c.name + " on " + testing::to_string(mesh.shape));
  const Trained found = train(c, mesh);
  expect_close(found.losses, expected.losses);
  expect_close(found.norms, expected.norms);
  const auto model = c.make(c.setting(mesh));
  const auto& parameters = model->parameters().all();
  ASSERT_EQ(parameters.size(), expected.last_weights.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    SCOPED_TRACE(parameters[i]->name);
    const Parameter& parameter = *parameters[i];
    const Values gradient = piece_of(expected.first_gradients[i], parameter);
    expect_close(found.first_gradients[i],
                 {gradient.begin() + parameter.own_begin, gradient.begin() + parameter.own_end});
    expect_close(found.last_weights[i], piece_of(expected.last_weights[i], parameter));
  }
}

TEST(Layouts, EveryModelTrainsTheSameOnEach) {
  for (const Case& c : cases()) {
    const Trained expected = train(c, ProcessMesh());
    testing::for_each_layout(testing::data_and_tensor_layouts(), [&](const ProcessMesh& mesh) {
      expect_same_training(c, expected, mesh);
    });
  }
}

// The segment divides neither by the tensor ranks nor into the chunks of the context ranks: shares
// of time are uneven.
TEST(Layouts, RanksThatShareTimeTrainTheSame) {
  for (const Case& c : cases()) {
    const Trained expected = train(c, ProcessMesh());
    testing::for_each_layout(testing::time_layouts(), [&](const ProcessMesh& mesh) {
      expect_same_training(c, expected, mesh);
    });
  }
}

// What a stack keeps for its backward pass, or rebuilds, is each rank's share.
TEST(Layouts, RanksThatShareTimeTrainTheSameWhateverIsKept) {
  const auto with = [](const std::string& recompute, ResidualKind residual) {
    return std::vector<Case>{
        {"transformer_xl, recompute " + recompute,
         [=](ModelSetting setting) {
           TransformerXlOptions options;
           options.common = common(NormPlacement::pre);
           options.common.residual = residual;
           options.memory = 7;
           setting.memory.recompute = recompute;
           return make_transformer_xl(options, setting);
         }},
        {"decoder, lsh, recompute " + recompute, [=](ModelSetting setting) {
           DecoderOptions options;
           options.common = common(NormPlacement::pre);
           options.common.residual = residual;
           options.common.attention = {.kinds = {"lsh", "causal"}, .lsh = {.chunk = 2}};
           setting.memory.recompute = recompute;
           return make_decoder(options, setting);
         }}};
  };
  std::vector<Case> all = with("none", ResidualKind::reversible);
  for (const char* const recompute : {"attention", "every 2"})
    all.push_back(with(recompute, ResidualKind::plain).front());
  for (const Case& c : all) {
    const Trained expected = train(c, ProcessMesh());
    testing::for_each_layout(
        {{.context = 4},
         {.tensor = 2, .sequence = true},
         {.context = 2, .tensor = 2, .sequence = true}},
        [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
  }
}

// What is kept of a stack: with one stream the same losses and gradients, with two those of two on
// one process.
TEST(Layouts, EveryMemoryModeTrainsTheSame) {
  const auto xl = [](ResidualKind residual) {
    return [=](const ModelSetting& setting) {
      TransformerXlOptions options;
      options.common = common(NormPlacement::pre);
      options.common.layers = 3;
      options.memory = 3;
      options.common.residual = residual;
      return make_transformer_xl(options, setting);
    };
  };
  const auto decoder = [](ResidualKind residual) {
    return [=](const ModelSetting& setting) {
      DecoderOptions options;
      options.common = common(NormPlacement::pre);
      options.common.residual = residual;
      options.common.reversible_output = StreamJoin::concatenate;
      options.common.tied_embeddings = false;
      return make_decoder(options, setting);
    };
  };
  const MemoryOptions chunks = {.feed_forward_chunks = 3, .loss_chunks = 2};
  struct Mode {
    std::string name;
    ResidualKind residual;
    MemoryOptions memory;
  };
  const std::vector<Mode> modes = {
      {"attention again", ResidualKind::plain, {.recompute = "attention"}},
      {"layers again", ResidualKind::plain, {.recompute = "layer"}},
      {"two layers again, chunked",
       ResidualKind::plain,
       {.recompute = "every 2", .feed_forward_chunks = 3, .loss_chunks = 2}},
      {"chunked", ResidualKind::plain, chunks},
      {"reversible", ResidualKind::reversible, {}},
      {"reversible, chunked", ResidualKind::reversible, chunks},
  };
  for (const Mode& mode : modes) {
    for (Case c : {Case{"transformer_xl, " + mode.name, xl(mode.residual)},
                   Case{"decoder, " + mode.name, decoder(mode.residual)}}) {
      const Trained expected = train(c, ProcessMesh());
      c.memory = mode.memory;
      testing::for_each_layout(
          {{}, {.data = 2}, {.tensor = 2}, {.data = 2, .tensor = 2}, {.context = 2, .tensor = 2}},
          [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
      c.zero = 2;
      testing::for_each_layout(
          {{.data = 2}}, [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
    }
  }
}

TEST(Layouts, AccumulationTrainsTheSame) {
  for (Case c : cases()) {
    const Trained expected = train(c, ProcessMesh());
    c.accumulation = 2;
    c.name += ", in two parts";
    testing::for_each_layout(
        {{}, {.data = 2}, {.data = 2, .tensor = 2}, {.context = 2, .tensor = 2, .sequence = true}},
        [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
  }
}

void expect_same_shared_out(Case c, int parts, const std::vector<MeshShape>& layouts) {
  const Trained expected = train(c, ProcessMesh());
  c.accumulation = parts;
  const std::string name = c.name;
  for (c.zero = 1; c.zero <= 2; ++c.zero) {
    c.name = fmt::format("{} in {} parts, ZeRO {}", name, parts, c.zero);
    testing::for_each_layout(
        layouts, [&](const ProcessMesh& mesh) { expect_same_training(c, expected, mesh); });
  }
}

TEST(Layouts, WhatIsSharedOutTrainsTheSame) {
  const std::vector<Case> all = cases();
  for (const Case& c : all) expect_same_shared_out(c, 1, {{.data = 2, .tensor = 2}});
  const Case& tied = all[0];
  const Case& untied = all[1];
  for (const Case& c : {tied, untied})
    expect_same_shared_out(c,
                           1,
                           {{},
                            {.data = 2},
                            {.data = 4},
                            {.tensor = 2, .sequence = true},
                            {.data = 2, .context = 2},
                            {.context = 2, .tensor = 2, .sequence = true}});
  expect_same_shared_out(
      tied, 2, {{.data = 2}, {.data = 2, .tensor = 2}, {.data = 2, .tensor = 2, .sequence = true}});
}

// Gradients that arrive in a backward pass within the backward pass.
TEST(Layouts, WhatIsSharedOutTrainsTheSameWhenComputedAgain) {
  const auto decoder = [](ResidualKind residual, const std::string& recompute) {
    return [=](ModelSetting setting) {
      DecoderOptions options;
      options.common = common(NormPlacement::pre);
      options.common.residual = residual;
      setting.memory.recompute = recompute;
      return make_decoder(options, setting);
    };
  };
  const std::vector<MeshShape> layouts = {{.data = 4}, {.data = 2, .tensor = 2}};
  expect_same_shared_out(
      {"decoder, layers again", decoder(ResidualKind::plain, "layer")}, 2, {{.data = 2}});
  expect_same_shared_out(
      {"decoder, layers again", decoder(ResidualKind::plain, "layer")}, 1, layouts);
  expect_same_shared_out(
      {"decoder, reversible", decoder(ResidualKind::reversible, "none")}, 1, layouts);
}

TEST(Layouts, TheSameLayoutGivesTheSameBits) {
  const std::vector<Case> all = cases();
  testing::for_each_layout(
      {{}, {.data = 2, .tensor = 2}, {.data = 4}, {.context = 2, .tensor = 2, .sequence = true}},
      [&](const ProcessMesh& mesh) {
        for (const Case& c : all) {
          SCOPED_TRACE(c.name + " on " + testing::to_string(mesh.shape));
          const Trained once = train(c, mesh);
          const Trained again = train(c, mesh);
          EXPECT_EQ(once.losses, again.losses);
          EXPECT_EQ(once.last_weights, again.last_weights);
        }
      });
}

}  // namespace
}  // namespace longspan
