// Losses with several terms: each is divided by its count over all ranks, then weighted.
#include <gmock/gmock.h>

#include "framework/modeling/lm_head.h"
#include "tests/data/temporary_file.h"
#include "tests/models/embedding_body.h"
#include "tests/models/layouts_testing.h"

namespace longspan::terms_mesh_test {
namespace {

using testing::Values;
using testing::values_of;

constexpr std::int64_t streams = 4;
constexpr std::int64_t segment = 6;
constexpr double rounding = 1e-12;
constexpr double weights[] = {0.75, 3.5};

// Next-token losses, and losses of marked tokens with a separate matrix.
class TwoTerms : public OutputHead {
 public:
  TwoTerms(const Scope& scope, const Backbone& body, const ModelBuildOptions& setting)
      : next_(lm_head()(scope, body, setting)),
        marked_(lm_head()(scope.child("marked"), body, setting)) {}

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext& pass) const override {
    ModelInput marked = reading;
    marked.fields["targets"] = field_of(reading.fields, "marked");
    std::vector<LossTerm> terms = next_->losses(states, reading, pass);
    terms.push_back(marked_->losses(states, marked, pass).front());
    terms[0].weight = weights[0];
    terms[1].weight = weights[1];
    terms[1].name = terms[1].count = "marked";
    return terms;
  }
  Variable scores(const BackboneOutput& states,
                  const ModelInput& reading,
                  const ForwardContext& pass) const override {
    return next_->scores(states, reading, pass);
  }
  const ShardRange& part() const override { return next_->part(); }

 private:
  std::unique_ptr<OutputHead> next_;
  std::unique_ptr<OutputHead> marked_;
};

std::unique_ptr<Model> make_model(const ProcessMesh& mesh) {
  ModelBuildOptions setting = testing::tiny_setting(segment);
  setting.mesh = mesh;
  return std::make_unique<Model>(
      setting,
      testing::embedding_body({.width = 8, .initial = Initializer::normal(0.5)}),
      [](const Scope& scope, const Backbone& body, const ModelBuildOptions& each) {
        return std::make_unique<TwoTerms>(scope, body, each);
      });
}

// Row r has no target in its first r columns. Rows 0 and 1 of 4 have 6 and 1 marked tokens: counts
// differ between data ranks, and some are 0.
Batch batch_of(const StreamRange& rows) {
  Batch batch = testing::batch_of_rows(testing::random_ids(streams, segment + 1, 1), rows);
  batch.fields["marked"] = testing::random_ids(streams, segment, 2).slice(rows.begin, rows.end);
  constexpr std::int64_t marked[streams] = {6, 1, 0, 0};
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    const auto of_row = [&](const char* name) {
      return batch.field(name).slice(row, row + 1).span<std::int64_t>();
    };
    const std::int64_t global = rows.begin + row;
    std::ranges::fill(of_row("targets").first(static_cast<std::size_t>(global)), ignored_target);
    std::ranges::fill(of_row("marked").subspan(static_cast<std::size_t>(marked[global])),
                      ignored_target);
  }
  const auto counted = [&](const char* name) {
    return std::ranges::count_if(batch.field(name).span<std::int64_t>(),
                                 [](std::int64_t id) { return id != ignored_target; });
  };
  batch.counts = {{"tokens", counted("targets")}, {"marked", counted("marked")}};
  return batch;
}

// Terms of the full batch on one process, summed manually.
struct Expected {
  double means[2] = {};
  std::vector<Values> gradients = {};  // one per parameter
};

Expected compute_expected() {
  const auto model = make_model({});
  const Batch batch = batch_of({.begin = 0, .end = streams});
  const double counts[] = {18, 7};
  EXPECT_EQ(batch.count("tokens"), counts[0]);
  EXPECT_EQ(batch.count("marked"), counts[1]);
  Expected result;
  for (std::size_t term = 0; term < 2; ++term) {
    model->parameters().clear_gradients();
    const Variable values =
        model->losses({.fields = batch.fields}, {.training = true}).terms[term].values;
    result.means[term] = sum(values).value().item() / counts[term];
    backward(sum(values));
    for (std::size_t i = 0; const auto& parameter : model->parameters().all()) {
      if (term == 0)
        result.gradients.emplace_back(static_cast<std::size_t>(parameter->shape.elements()));
      Values& all = result.gradients[i++];
      // A matrix that this term does not read has no gradient.
      if (!parameter->variable.gradient().defined()) continue;
      const Values gradient = values_of(parameter->gradient);
      for (std::size_t k = 0; k < all.size(); ++k)
        all[k] += weights[term] / counts[term] * gradient[k];
    }
  }
  return result;
}

void expect_step(const Expected& expected, const ProcessMesh& mesh, std::int64_t accumulation) {
  TrainingOptions options;
  options.clip_norm = 0;
  options.accumulation = accumulation;
  Trainer trainer(make_model(mesh), options, Random(1));
  const Batch batch = batch_of(
      streams_of_rank(streams, mesh.data.rank(), mesh.data.size(), "data.global_batch_size"));
  const double total = weights[0] * expected.means[0] + weights[1] * expected.means[1];
  EXPECT_NEAR(trainer.probe_step(batch).loss, total, rounding);
  const StepResult found = trainer.step(batch);
  EXPECT_NEAR(found.loss, total, rounding);
  EXPECT_EQ(found.tokens, 18);
  ASSERT_EQ(found.terms.size(), 2u);
  EXPECT_EQ(found.terms[0].name, "loss");
  EXPECT_EQ(found.terms[1].name, "marked");
  for (std::size_t term = 0; term < 2; ++term)
    EXPECT_NEAR(found.terms[term].loss, expected.means[term], rounding);
  const auto& parameters = trainer.model().parameters().all();
  ASSERT_EQ(parameters.size(), expected.gradients.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    SCOPED_TRACE(parameters[i]->name);
    testing::expect_close(values_of(parameters[i]->shard_gradient),
                          testing::piece_of(expected.gradients[i], *parameters[i]),
                          rounding);
  }
}

TEST(LossTerm, SumMatchesOneProcessWithUnequalCounts) {
  const Expected expected = compute_expected();
  testing::for_each_layout(
      {{},
       {.data = 2},
       {.data = 4},
       {.context = 2},
       {.data = 2, .context = 2},
       {.data = 2, .tensor = 2},
       {.data = 2, .tensor = 2, .sequence = true}},
      [&](const ProcessMesh& mesh) {
        for (const std::int64_t accumulation : {1, 2}) {
          if (streams / mesh.data.size() % accumulation != 0) continue;
          SCOPED_TRACE(
              fmt::format("{}, in {} parts", testing::to_string(mesh.shape), accumulation));
          expect_step(expected, mesh, accumulation);
        }
      });
}

TEST(LossTerm, IsZeroWithoutCountedTargets) {
  testing::for_each_layout({{}, {.data = 2}}, [](const ProcessMesh& mesh) {
    Trainer trainer(make_model(mesh), {}, Random(1));
    Batch batch = batch_of(
        streams_of_rank(streams, mesh.data.rank(), mesh.data.size(), "data.global_batch_size"));
    std::ranges::fill(batch.field("marked").span<std::int64_t>(), ignored_target);
    batch.counts["marked"] = 0;
    const StepResult result = trainer.step(batch);
    EXPECT_FALSE(result.skipped);
    EXPECT_EQ(result.terms[1].loss, 0);
    EXPECT_NEAR(result.loss, weights[0] * result.terms[0].loss, rounding);
  });
}

TEST(LossTerm, RejectsBatchWithoutItsCount) {
  testing::for_each_layout({{}, {.data = 2}}, [](const ProcessMesh& mesh) {
    Trainer trainer(make_model(mesh), {}, Random(1));
    Batch batch = batch_of(
        streams_of_rank(streams, mesh.data.rank(), mesh.data.size(), "data.global_batch_size"));
    batch.counts.erase("marked");
    EXPECT_THAT(message_of<Failure>([&] { trainer.step(batch); }),
                ::testing::HasSubstr("the batch has no count `marked`"));
  });
}

}  // namespace
}  // namespace longspan::terms_mesh_test
