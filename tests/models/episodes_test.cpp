// Recurrent state of an ended episode is masked.
#include "framework/data/episode_source.h"
#include "framework/modeling/documents.h"
#include "framework/modeling/heads.h"
#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"

namespace longspan::episodes_test {
namespace {

using testing::random_ids;
using testing::segment_of;
using testing::tiny_options;
using testing::tiny_setting;
using testing::Values;
using testing::values_of;

constexpr std::int64_t rows = 3;
constexpr std::int64_t segment = 5;
constexpr std::int64_t longest = 8;

std::unique_ptr<Model> gated_model() {
  TransformerXlOptions options = {.common = tiny_options(NormPosition::pre), .memory = longest};
  options.common.residual = ResidualKind::gated;
  return make_transformer_xl(options, tiny_setting(segment));
}

ModelInput with_earlier(ModelInput reading, const std::vector<std::int64_t>& earlier) {
  reading.fields["earlier"] = testing::ids_of(earlier);
  return reading;
}

// Losses [rows, segment] of each segment of the tokens.
std::vector<Values> read(const Model& model,
                         const Tensor& text,
                         const std::vector<std::vector<std::int64_t>>& earlier) {
  const NoGradGuard unrecorded;
  std::vector<Values> found;
  RecurrentState carried;
  for (const auto& of_segment : earlier) {
    const std::int64_t begin = segment * std::ssize(found);
    const Losses losses =
        model.losses(with_earlier(segment_of(text, begin, segment, carried, longest), of_segment),
                     ForwardContext());
    carried = losses.carried;
    found.push_back(values_of(testing::loss_values(losses).value()));
  }
  return found;
}

Values row_of(const Values& losses, std::int64_t row) {
  return {losses.begin() + row * segment, losses.begin() + (row + 1) * segment};
}

TEST(Episodes, DoNotAttendToEarlierEpisodes) {
  const auto model = gated_model();
  const Tensor text = random_ids(rows, 3 * segment + 1, 3);
  // Row 0 starts a new episode with the last segment, row 1 with the one before, row 2 never.
  const auto mixed = read(*model, text, {{0, 0, 0}, {5, 0, 5}, {0, 5, 10}});
  const Tensor last = testing::columns(text, 2 * segment, segment + 1);
  testing::expect_close(row_of(mixed[2], 0), row_of(read(*model, last, {{0, 0, 0}})[0], 0), 1e-13);
  const Tensor later = testing::columns(text, segment, 2 * segment + 1);
  const auto later_losses = read(*model, later, {{0, 0, 0}, {5, 5, 5}});
  testing::expect_close(row_of(mixed[1], 1), row_of(later_losses[0], 1), 1e-13);
  testing::expect_close(row_of(mixed[2], 1), row_of(later_losses[1], 1), 1e-13);
  const auto whole = read(*model, text, {{0, 0, 0}, {5, 5, 5}, {10, 10, 10}});
  testing::expect_close(row_of(mixed[2], 2), row_of(whole[2], 2), 1e-13);
  // The mask has an effect.
  EXPECT_NE(row_of(mixed[2], 0), row_of(whole[2], 0));
}

TEST(Episodes, GradientsMatchFiniteDifferences) {
  const auto model = gated_model();
  const Tensor text = random_ids(rows, 2 * segment + 1, 3);
  const RecurrentState carried =
      model->losses(segment_of(text, 0, segment, {}, longest), ForwardContext()).carried;
  testing::expect_model_gradients(
      *model,
      with_earlier(segment_of(text, segment, segment, carried, longest), {0, 5, 2}),
      {.training = true, .random = Random(1)});
}

ModelInput with_episodes(ModelInput reading, const std::vector<std::int64_t>& episodes) {
  reading.fields["episodes"] =
      Tensor::from<std::int64_t>(episodes, {rows, segment}, testing::backend_device().host());
  return reading;
}

Values losses_of(const Model& model, const ModelInput& reading) {
  const NoGradGuard unrecorded;
  return values_of(testing::loss_values(model.losses(reading, ForwardContext())).value());
}

// A second episode in the segment attends neither to the first nor to the recurrent state. The
// first is unchanged.
TEST(Episodes, DoNotAttendToEachOtherWithinASegment) {
  const auto model = gated_model();
  const Tensor text = random_ids(rows, 2 * segment + 1, 3);
  const RecurrentState carried =
      model->losses(segment_of(text, 0, segment, {}, longest), ForwardContext()).carried;
  const ModelInput whole =
      with_earlier(segment_of(text, segment, segment, carried, longest), {5, 3, 5});
  const Values apart = losses_of(*model, whole);
  const Values mixed =
      losses_of(*model, with_episodes(whole, {0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}));
  for (const auto& [row, begin] : {std::pair<std::int64_t, std::int64_t>{0, 2}, {1, 4}, {2, 5}}) {
    const Values found = row_of(mixed, row), before = row_of(apart, row);
    testing::expect_close(
        {found.begin(), found.begin() + begin}, {before.begin(), before.begin() + begin}, 1e-13);
    if (begin == segment) continue;
    const Values alone = losses_of(*model, segment_of(text, segment + begin, segment - begin));
    const std::int64_t length = segment - begin;
    testing::expect_close({found.begin() + begin, found.end()},
                          {alone.begin() + row * length, alone.begin() + (row + 1) * length},
                          1e-13);
    EXPECT_NE(Values(found.begin() + begin, found.end()),
              Values(before.begin() + begin, before.end()));
  }
}

TEST(Episodes, PackedGradientsMatchFiniteDifferences) {
  const auto model = gated_model();
  const Tensor text = random_ids(rows, 2 * segment + 1, 3);
  const RecurrentState carried =
      model->losses(segment_of(text, 0, segment, {}, longest), ForwardContext()).carried;
  const ModelInput reading =
      with_earlier(segment_of(text, segment, segment, carried, longest), {0, 5, 2});
  testing::expect_model_gradients(
      *model,
      with_episodes(reading, {0, 0, 1, 1, 2, 0, 0, 0, 0, 1, 0, 1, 2, 3, 4}),
      {.training = true, .random = Random(1)});
}

// Accuracy in percent over actions of held-out episodes.
double accuracy_of(const Model& model, EpisodeSource source, int batches) {
  double asked = 0, right = 0;
  ModelInput reading = {.max_mem_len = model.body().max_mem_len()};
  for (int i = 0; i < batches; ++i) {
    reading.fields = source.next().fields;
    Predictions answers = model.predict(reading, ForwardContext());
    reading.carried = std::move(answers.carried);
    const auto targets = reading.fields.at("targets").span<std::int64_t>();
    for (std::size_t j = 0; j < targets.size(); ++j) {
      asked += targets[j] >= 0 ? 1 : 0;
      right += targets[j] >= 0 && answers.choices.span<std::int64_t>()[j] == targets[j] ? 1 : 0;
    }
  }
  return 100 * right / asked;
}

double accuracy_after(int steps, std::int64_t memory) {
  const Environment t_maze = parse_environment("t_maze length 12", "world");
  TransformerXlOptions options = {.common = {.layers = 2,
                                             .width = 16,
                                             .heads = 2,
                                             .feed_forward = 32,
                                             .norm = NormPosition::pre,
                                             .residual = ResidualKind::gated,
                                             .dropout = 0,
                                             .initial_deviation = {}},
                                  .memory = memory};
  ModelBuildOptions setting = tiny_setting(6);
  setting.vocabulary = 256;
  setting.classes = 2;
  TrainingOptions training;
  training.steps = steps;
  training.learning_rate = 3e-3;
  Trainer trainer(std::make_unique<Model>(setting, transformer_xl_body(options), tagging_head()),
                  training,
                  Random(1));
  const Device host = testing::backend_device().host();
  EpisodeSource source(t_maze, {16, 6, true}, Random(1), 0, 1, host);
  for (int step = 0; step < steps; ++step) trainer.step(source.next());
  return accuracy_of(trainer.model(), {t_maze, {16, 6}, Random(2), 0, 1, host}, 12);
}

// The cue is two segments before the fork.
TEST(Episodes, TMazeRequiresMemory) {
  EXPECT_EQ(accuracy_after(150, 18), 100);
  const double without = accuracy_after(150, 0);
  EXPECT_GT(without, 20);
  EXPECT_LT(without, 80);
}

TEST(Episodes, ExpiredKeysPrecedeTheEpisode) {
  const Tensor text = random_ids(2, segment + 1, 3);
  ModelInput reading = segment_of(text, 0, segment);
  EXPECT_FALSE(expired_keys(reading, testing::backend_device()).defined());
  reading = with_earlier(reading, {2, 100});
  EXPECT_FALSE(expired_keys(reading, testing::backend_device()).defined()) << "nothing is carried";
  reading.carried = testing::memory_of({testing::random_tensor({2, 3, 8}, 1)});
  const Tensor expired = expired_keys(reading, testing::backend_device()).to_host();
  const auto found = expired.span<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(found.begin(), found.end()),
            (std::vector<int>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace longspan::episodes_test
