// Chunked backpropagation through time on several ranks.
#include "tests/models/kinds_testing.h"

namespace longspan::bptt_chunks_mesh_test {
namespace {

using testing::Case;

// A stop that one rank requests between two chunks discards the step on every rank, and changes
// nothing: the same step afterwards equals one without a stop.
TEST(BpttChunksMesh, StopOfOneRankDiscardsTheStep) {
  for (const int zero : {0, 2})
    testing::for_each_layout(
        {{.data = 2}, {.context = 2, .tensor = 2}}, [&](const ProcessMesh& mesh) {
          Case c = testing::with(
              testing::transformer_xl(testing::short_attention({"full", "sliding_window"}), 3),
              {"plain", ResidualKind::plain, {.bptt_chunk_length = 2}},
              zero,
              {.steps = 3});
          const auto batch = [&](int step) {
            return testing::batch_of(c, step, testing::streams_of(c, mesh));
          };
          const std::unique_ptr<Trainer> expected = testing::trainer_of(c, mesh);
          std::vector<StepResult> results;
          for (int step = 0; step < c.steps; ++step) results.push_back(expected->step(batch(step)));
          // 3 chunks: 2 forward and 2 backward passes are followed by a question.
          for (int stop_after = 1; stop_after <= 4; ++stop_after) {
            const std::unique_ptr<Trainer> stopped = testing::trainer_of(c, mesh);
            stopped->step(batch(0));
            int asked = 0;
            StepRequest request;
            request.stop = [&] { return ++asked == stop_after && mesh.world.rank() == 1; };
            EXPECT_TRUE(stopped->step(batch(1), request).is_discarded);
            EXPECT_EQ(asked, stop_after);
            for (int step = 1; step < c.steps; ++step) {
              const StepResult result = stopped->step(batch(step));
              EXPECT_EQ(result.loss, results[static_cast<std::size_t>(step)].loss);
              EXPECT_EQ(result.gradient_norm,
                        results[static_cast<std::size_t>(step)].gradient_norm);
            }
          }
        });
}

}  // namespace
}  // namespace longspan::bptt_chunks_mesh_test
