#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/data/corpus/corpus.h"
#include "tests/data/temporary_file.h"
#include "tests/support/mesh_runner.h"

namespace longspan::corpus_mesh_test {
namespace {

TEST(RequireSameCorpus, AcceptsEqualTextOnEveryRank) {
  const TemporaryFile file("the same text");
  testing::on_ranks(4, [&](const Communicator& all) {
    EXPECT_NO_THROW(require_same_corpus(Corpus(file.path(), Tokenizer()), all));
  });
}

TEST(RequireSameCorpus, ThrowsOnEveryRankForDifferentText) {
  testing::on_ranks(4, [](const Communicator& all) {
    const TemporaryFile file(all.rank() == 2 ? "another text!" : "the same text");
    const Corpus corpus(file.path(), Tokenizer());
    EXPECT_THAT(message_of<DataError>([&] { require_same_corpus(corpus, all); }),
                ::testing::HasSubstr("text or vocabulary differs between ranks"));
  });
}

}  // namespace
}  // namespace longspan::corpus_mesh_test
