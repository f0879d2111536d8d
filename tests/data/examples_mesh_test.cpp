#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/data/batching/bucketed_source.h"
#include "framework/data/examples/label_examples.h"
#include "framework/data/examples/parallel_examples.h"
#include "tests/data/example_files.h"
#include "tests/support/mesh_runner.h"

namespace longspan::examples_mesh_test {
namespace {

TEST(ExamplesMesh, RanksReadRowsOfGlobalBatch) {
  const testing::PairText text = testing::pair_text(120);
  const TemporaryFile source(text.source);
  const TemporaryFile target(text.target);
  testing::on_ranks(4, [&](const Communicator& all) {
    const auto pairs = open_parallel_corpus(source.path(), target.path(), {}, {}, all);
    const BucketOptions options = {.batch_tokens = 900, .longest = 0};
    BucketedSource mine(pairs, options, 1, {all.rank(), all.size(), 1});
    BucketedSource whole(pairs, options, 1, {});
    for (int i = 0; i < 5; ++i) {
      const Batch part = mine.next();
      const Batch batch = whole.next();
      const auto tokens = all.all_reduce(part.count("tokens"), Reduction::sum);
      EXPECT_EQ(tokens, batch.count("tokens"));
      for (std::int64_t row = part.first_row;
           row < std::min(part.first_row + part.rows(), batch.rows());
           ++row)
        EXPECT_EQ(testing::source_of(part, row - part.first_row), testing::source_of(batch, row));
    }
  });
}

TEST(ExamplesMesh, EveryRankReportsUnequalLineCounts) {
  const TemporaryFile source("a\nb\n");
  const TemporaryFile target("x\ny\nz\n");
  testing::on_ranks(4, [&](const Communicator& all) {
    EXPECT_THAT(message_of<DataError>(
                    [&] { open_parallel_corpus(source.path(), target.path(), {}, {}, all); }),
                ::testing::HasSubstr(":3: has 3 lines"));
  });
}

TEST(ExamplesMesh, EveryRankReceivesLearnedLabels) {
  const TemporaryFile file("noun\ta\nverb\tb\n");
  testing::on_ranks(4, [&](const Communicator& all) {
    EXPECT_EQ(learn_labels(file.path(), all).labels, LabelSet({"noun", "verb"}));
  });
}

}  // namespace
}  // namespace longspan::examples_mesh_test
