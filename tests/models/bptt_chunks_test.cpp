// Chunked backpropagation through time: a step in chunks equals a step over whole sequences.
#include "tests/models/kinds_testing.h"

namespace longspan::bptt_chunks_test {
namespace {

using testing::Case;
using testing::difference;
using testing::Kind;
using testing::kinds;
using testing::Mode;
using testing::modes;
using testing::reference_modes;
using testing::References;
using testing::supports;
using testing::train;
using testing::Trained;
using testing::with;

Mode chunks_of(std::int64_t length, Mode mode = {"plain"}) {
  mode.name += fmt::format(", chunks of {}", length);
  mode.memory.bptt_chunk_length = length;
  return mode;
}

// Chunks of one token, shorter than the windows, that do not divide the sequence, and of all of it.
TEST(BpttChunks, EveryModelMatchesWholeSequences) {
  const Case common = {.segment = 11, .steps = 2};
  std::size_t tested = 0;
  for (const Kind& kind : kinds()) {
    if (!supports(kind, chunks_of(2), common)) continue;
    ++tested;
    const Trained expected = train(with(kind, {"plain"}, 0, common), ProcessMesh());
    for (const std::int64_t length : {1, 2, 4, 10, 11, 12}) {
      const Case c = with(kind, chunks_of(length), 0, common);
      EXPECT_EQ(difference(train(c, ProcessMesh()), expected, c.bounds), "") << c.name;
    }
  }
  EXPECT_GE(tested, 28u);
}

TEST(BpttChunks, EveryMemoryModeMatchesWholeSequences) {
  const Case common = {.accumulation = 2, .segment = 7, .steps = 2};
  for (const Kind& kind : kinds()) {
    if (!supports(kind, chunks_of(2), common)) continue;
    References references;
    for (const Mode& mode : reference_modes())
      references.emplace(mode.residual, train(with(kind, mode, 0, common), ProcessMesh()));
    for (const Mode& mode : modes()) {
      const Case c = with(kind, chunks_of(3, mode), 0, common);
      const Trained& expected = references.at(mode.residual);
      EXPECT_EQ(difference(train(c, ProcessMesh()), expected, c.bounds), "") << c.name;
    }
  }
}

}  // namespace
}  // namespace longspan::bptt_chunks_test
