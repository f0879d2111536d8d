// Intermediate losses and losses of future tokens (Al-Rfou et al. 2018).
#include "models/intermediate_losses.h"

#include <map>
#include <set>

#include "framework/trainer/trainer.h"
#include "tests/models/intermediate_losses_testing.h"
#include "tests/support/temporary_directory.h"

namespace longspan::intermediate_losses_test {
namespace {

using testing::deep_options;
using testing::InnerLosses;
using testing::random_ids;
using testing::segment_of;
using testing::Values;
using testing::values_of;

// The losses of layers 1 and 2 of 3 end with steps 10 and 20.
ModelBuildOptions setting_of(std::int64_t steps = 60) {
  ModelBuildOptions setting = testing::tiny_setting();
  setting.steps = steps;
  return setting;
}

ForwardContext training_at(std::int64_t step) {
  return {.training = true, .random = Random(3), .step = step};
}

std::vector<std::string> names(const Losses& losses) {
  std::vector<std::string> result;
  for (const LossTerm& term : losses.terms) result.push_back(term.name);
  return result;
}

// The weighted sum of all terms, as in a training step.
Variable total(const Losses& losses) {
  Variable all = sum(losses.terms.front().values);
  for (std::size_t i = 1; i < losses.terms.size(); ++i)
    all = add(all, sum(losses.terms[i].values, losses.terms[i].weight));
  return all;
}

TEST(IntermediateLosses, WeightsFollowScheduleByLayer) {
  const AuxiliaryLossOptions drop = {.inner = InnerLosses::drop};
  for (std::int64_t step = 0; step < 80; ++step)
    for (std::int64_t layer = 1; layer < 4; ++layer)
      EXPECT_EQ(inner_loss_weight(drop, layer, 4, step, 80), step < 10 * layer ? 1 : 0);
  // ceil(S l / (2 n)), also for quotients that round.
  for (std::int64_t steps = 1; steps < 200; ++steps)
    for (std::int64_t layer = 1; layer < 12; ++layer)
      EXPECT_EQ(inner_loss_end(drop, layer, 12, steps), (steps * layer + 23) / 24);
  AuxiliaryLossOptions decay = {.inner = InnerLosses::decay, .end = 1, .weight = 0.5};
  EXPECT_EQ(inner_loss_weight(decay, 2, 4, 0, 80), 0.5);
  EXPECT_EQ(inner_loss_weight(decay, 2, 4, 30, 80), 0.125);
  EXPECT_EQ(inner_loss_weight(decay, 2, 4, 40, 80), 0);
  decay.total = AuxiliaryLossOptions::Total::mean;
  EXPECT_EQ(inner_loss_weight(decay, 2, 4, 30, 80), 0.0625);  // mean with layer 3
  EXPECT_EQ(inner_loss_weight({}, 3, 4, 0, 80), 0);
}

TEST(IntermediateLosses, ApplyOnlyInTrainingBeforeTheirEnd) {
  const auto model = make_decoder(deep_options(), setting_of());
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  const auto at = [&](std::int64_t step) {
    return names(model->losses(segment, training_at(step)));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(at(9), (Names{"loss", "layer1", "layer1_ahead2", "layer2", "layer2_ahead2", "ahead2"}));
  EXPECT_EQ(at(10), (Names{"loss", "layer2", "layer2_ahead2", "ahead2"}));
  EXPECT_EQ(at(20), (Names{"loss", "ahead2"}));
  EXPECT_EQ(names(model->losses(segment, ForwardContext())), Names{"loss"});
}

TEST(IntermediateLosses, UntrainedModelHasNoAuxiliaryHeads) {
  const auto trained = make_decoder(deep_options(), setting_of());
  const auto used = make_decoder(deep_options(), testing::tiny_setting());
  constexpr std::int64_t head = testing::vocabulary * (8 + 1), norm = 2 * 8;
  EXPECT_EQ(trained->parameters().global_elements() - used->parameters().global_elements(),
            5 * head + 3 * norm);
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  EXPECT_EQ(values_of(testing::losses_of(*trained, segment).value()),
            values_of(testing::losses_of(*used, segment).value()));
}

TEST(IntermediateLosses, GradientsMatchFiniteDifferences) {
  struct Way {
    NormPosition norm;
    ResidualKind residual = ResidualKind::plain;
    MemoryOptions memory = {};
  };
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  for (const Way& way : {Way{NormPosition::post},
                         Way{NormPosition::pre,
                             ResidualKind::plain,
                             {.recompute_granularity = RecomputeGranularity::full}},
                         Way{NormPosition::pre, ResidualKind::reversible, {.loss_chunks = 2}}}) {
    DecoderOptions options = deep_options(way.norm);
    options.common.residual = way.residual;
    options.common.dropout = 0.2;
    ModelBuildOptions setting = setting_of();
    setting.memory = way.memory;
    const auto model = make_decoder(options, setting);
    testing::expect_layer_gradients(
        model->parameters(),
        [&](const std::vector<Variable>&) { return total(model->losses(segment, training_at(0))); },
        {},
        {.directions = 1, .elements = 1});
  }
}

// An equal head on the last layer predicts one token further ahead.
TEST(IntermediateLosses, FutureTokenLossesMatchShiftedTargets) {
  DecoderOptions options = deep_options(NormPosition::post);
  options.common.tied_embeddings = false;
  const auto model = make_decoder(options, setting_of());
  model->parameters()
      .named("inner/3/2/weight")
      .master.copy_from(model->parameters().named("output/weight").master);
  const Tensor text = random_ids(2, 7, 1);
  ModelInput later = segment_of(text, 0, 5);
  later.fields["targets"] = testing::columns(text, 2, 5);
  const Values expected =
      values_of(model->losses(later, training_at(59)).terms.front().values.value());
  const Losses losses = model->losses(segment_of(text, 0, 5), training_at(59));
  ASSERT_EQ(names(losses), (std::vector<std::string>{"loss", "ahead2"}));
  EXPECT_EQ(losses.terms[1].weight, 0.5);
  const Values found = values_of(losses.terms[1].values.value());
  // Mean over 4 of 5 positions.
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(found[i], i % 5 == 4 ? 0 : 1.25 * expected[i], 1e-12) << i;
}

TEST(IntermediateLosses, DoNotDependOnLaterTokens) {
  const auto model = make_decoder(deep_options(), setting_of());
  const Tensor text = random_ids(1, 6, 1);
  const Tensor changed = text.clone();
  std::int64_t& token = changed.data<std::int64_t>()[3];
  token = (token + 1) % testing::vocabulary;
  const ModelInput segment = segment_of(text, 0, 5);
  ModelInput other = segment;
  other.fields["tokens"] = testing::columns(changed, 0, 5);
  const Losses before = model->losses(segment, training_at(0));
  const Losses after = model->losses(other, training_at(0));
  ASSERT_EQ(before.terms.size(), 6u);
  for (std::size_t term = 0; term < before.terms.size(); ++term) {
    const Values left = values_of(before.terms[term].values.value());
    const Values right = values_of(after.terms[term].values.value());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(left[i], right[i]);
    EXPECT_NE(left[3], right[3]);
  }
}

Batch batch_of(std::int64_t step) {
  return testing::batch_of_rows(random_ids(2, 6, static_cast<std::uint64_t>(step)));
}

std::unique_ptr<Trainer> trainer_of(const DecoderOptions& options,
                                    const OptimizerOptions& optimizer = {},
                                    std::int64_t steps = 12) {
  TrainingOptions training;
  training.steps = steps;
  training.schedule = ScheduleKind::constant;
  training.learning_rate = 0.01;
  training.clip_norm = 0.5;
  training.optimizer = optimizer;
  ModelBuildOptions setting = setting_of(steps);
  setting.separate_masters = optimizer.kind == OptimizerKind::schedule_free;
  return std::make_unique<Trainer>(make_decoder(options, setting), training, Random(2));
}

// Equal up to the order in which squared gradients are summed.
TEST(IntermediateLosses, ZeroWeightsDoNotChangeTraining) {
  const auto train = [](const DecoderOptions& options) {
    const auto trainer = trainer_of(options);
    for (int step = 0; step < 3; ++step) trainer->step(batch_of(step));
    std::map<std::string, Values> weights;
    for (const auto& parameter : trainer->model().parameters().all())
      weights[parameter->name] = values_of(parameter->master);
    return weights;
  };
  DecoderOptions options = deep_options();
  options.auxiliary.weight = options.auxiliary.target_weight = 0;
  const auto with = train(options);
  options.auxiliary = {};
  for (const auto& [name, values] : train(options))
    testing::expect_close(with.at(name), values, 1e-12);
}

std::set<std::string> saved_heads(const TrainingState& state) {
  std::set<std::string> layers;
  for (const StateTensor& tensor : state.tensors)
    if (const auto at = tensor.name.find("inner/"); at != std::string::npos)
      layers.insert(tensor.name.substr(at, 7));
  return layers;
}

// The loss of layer 1 of 3 ends with step 2 of 12, the loss of layer 2 with step 4. Checkpoints
// omit ended heads and their optimizer state.
TEST(IntermediateLosses, ResumesBitwiseWithoutEndedHeads) {
  using Names = std::set<std::string>;
  const std::vector<Names> saved = {{"inner/1", "inner/2", "inner/3"},
                                    {"inner/2", "inner/3"},
                                    {"inner/2", "inner/3"},
                                    {"inner/3"}};
  for (const OptimizerKind kind : {OptimizerKind::adamw,
                                   OptimizerKind::lamb,
                                   OptimizerKind::adafactor,
                                   OptimizerKind::adagrad,
                                   OptimizerKind::muon,
                                   OptimizerKind::schedule_free}) {
    const OptimizerOptions optimizer = {.kind = kind, .weight_decay = 0.1};
    const testing::TemporaryDirectory directory;
    const auto whole = trainer_of(deep_options(), optimizer);
    auto left = trainer_of(deep_options(), optimizer);
    for (std::int64_t step = 0; step < 6; ++step) {
      const double loss = whole->step(batch_of(step)).loss;
      EXPECT_EQ(left->step(batch_of(step)).loss, loss) << step;
      if (step >= 4) continue;
      TrainingState state;
      left->save(state, {.total = 2});
      EXPECT_EQ(saved_heads(state), saved[static_cast<std::size_t>(step)]);
      CheckpointInfo info;
      info.step = step + 1;
      const auto path = save_checkpoint(directory.path(), info, state, {});
      left = trainer_of(deep_options(), optimizer);
      left->restore(Checkpoint::open(path), {.total = 2}, 2);
    }
  }
}

TEST(IntermediateLosses, EndedHeadsDoNotChange) {
  const auto trainer = trainer_of(deep_options(), {.weight_decay = 0.1});
  const Parameter& ended = trainer->model().parameters().named("inner/1/1/weight");
  const Parameter& last = trainer->model().parameters().named("inner/3/2/weight");
  for (int step = 0; step < 2; ++step) trainer->step(batch_of(step));
  const Values before = values_of(ended.master), moving = values_of(last.master);
  trainer->step(batch_of(2));
  EXPECT_EQ(values_of(ended.master), before);
  EXPECT_NE(values_of(last.master), moving);
}

TEST(IntermediateLosses, RejectsCheckpointWithoutRequiredHead) {
  const testing::TemporaryDirectory directory;
  const auto trainer = trainer_of(deep_options());
  for (int step = 0; step < 2; ++step) trainer->step(batch_of(step));
  TrainingState state;
  trainer->save(state, {.total = 2});
  CheckpointInfo info;
  info.step = 2;
  const Checkpoint saved = Checkpoint::open(save_checkpoint(directory.path(), info, state, {}));
  const auto longer = trainer_of(deep_options(), {}, 60);
  try {
    longer->restore(saved, {.total = 2}, 2);
    ADD_FAILURE() << "it went on";
  } catch (const ConfigurationError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("has no inner/1/1/weight, whose training had ended, "
                        "but would now end at step 10"),
              std::string::npos)
        << error.what();
  }
}

TEST(IntermediateLosses, PerLayerPositionsAffectLosses) {
  DecoderOptions options = deep_options(NormPosition::post);
  options.auxiliary = {};
  const auto model = make_decoder(options, testing::tiny_setting());
  const ModelInput segment = segment_of(random_ids(2, 6, 1), 0, 5);
  const Values before = values_of(testing::losses_of(*model, segment).value());
  const auto change = [&](const std::string& name) {
    const Tensor table = model->parameters().named(name).master;
    for (double& value : table.span<double>()) value = -value;
  };
  for (const std::string layer : {"0", "1", "2"}) {
    change("layers/" + layer + "/positions/weight");
    EXPECT_NE(values_of(testing::losses_of(*model, segment).value()), before);
    change("layers/" + layer + "/positions/weight");
  }
  EXPECT_EQ(values_of(testing::losses_of(*model, segment).value()), before);
  EXPECT_EQ(model->body().max_segment_length(), 5);
}

TEST(IntermediateLosses, RejectsInvalidOptions) {
  DecoderOptions sinusoidal = deep_options();
  sinusoidal.positions.kind = PositionEmbeddingType::sinusoidal;
  DecoderOptions shallow = deep_options();
  shallow.common.layers = 1;
  DecoderOptions far = deep_options();
  far.auxiliary.targets = 6;
  for (const DecoderOptions& options : {sinusoidal, shallow, far})
    EXPECT_THROW(make_decoder(options, setting_of()), ConfigurationError);
}

}  // namespace
}  // namespace longspan::intermediate_losses_test
