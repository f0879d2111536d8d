#include "framework/tasks/user_document_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"
#include "tests/data/temporary_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::user_document_source_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Documents = std::vector<std::vector<std::int64_t>>;

// Supplies `documents` in each epoch and appends the cursors of its calls to `opened`.
DocumentStreamFactory supply(const Documents& documents,
                             std::vector<DocumentCursor>* opened = nullptr) {
  return [=](const DocumentCursor& cursor) -> DocumentStream {
    if (opened) opened->push_back(cursor);
    return [documents, at = static_cast<std::size_t>(cursor.document)]() mutable {
      return at < documents.size() ? std::optional(documents[at++]) : std::nullopt;
    };
  };
}

// Document n has the ids 10 n, 10 n + 1, ...
Documents numbered(const std::vector<std::int64_t>& lengths) {
  Documents documents;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    documents.emplace_back();
    for (std::int64_t i = 0; i < lengths[n]; ++i)
      documents.back().push_back(10 * static_cast<std::int64_t>(n) + i);
  }
  return documents;
}

std::unique_ptr<BatchSource> source(const DocumentStreamFactory& open, std::int64_t streams = 2) {
  return user_document_source(
      {.open = open, .layout = {.streams = streams, .segment = 4}, .vocabulary = 100});
}

std::vector<std::int64_t> row(const Batch& batch, std::int64_t row, const char* field = "tokens") {
  const auto span = batch.field(field).slice(row, row + 1).span<std::int64_t>();
  return {span.begin(), span.end()};
}

std::filesystem::path saved(const BatchSource& source,
                            std::int64_t step,
                            const std::string& folder) {
  TrainingState state;
  source.save_state(state);
  CheckpointInfo info;
  info.run_id = "run";
  info.step = step;
  return save_checkpoint(folder, info, state, {});
}

TEST(UserDocumentSource, StreamsContinueWithNextDocument) {
  const auto all = source(supply(numbered({7, 2, 9, 5, 5})));
  const Batch first = all->next();
  EXPECT_THAT(row(first, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(row(first, 0, "targets"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(row(first, 1), ElementsAre(10, 11, 20, 21));
  EXPECT_TRUE(first.resets_state);
  EXPECT_EQ(first.count("tokens"), 8);
  const Batch second = all->next();
  EXPECT_THAT(row(second, 0), ElementsAre(4, 5, 6, 30));
  EXPECT_THAT(row(second, 0, "targets"), ElementsAre(5, 6, 30, 31));
  EXPECT_THAT(row(second, 1), ElementsAre(22, 23, 24, 25));
  EXPECT_FALSE(second.resets_state);
}

TEST(UserDocumentSource, NextEpochFollowsLastDocument) {
  std::vector<DocumentCursor> opened;
  const auto all = source(supply(numbered({3, 3}), &opened), 1);
  EXPECT_THAT(row(all->next(), 0), ElementsAre(0, 1, 2, 10));
  EXPECT_THAT(row(all->next(), 0), ElementsAre(11, 12, 0, 1));
  EXPECT_THAT(opened, ElementsAre(DocumentCursor{0, 0}, DocumentCursor{1, 0}));
}

// A discarded step gives its batch back, so that the resumed run reads it again.
TEST(UserDocumentSource, ResumesBeforeDiscardedBatch) {
  const Documents documents = numbered({3, 9, 2, 5, 0, 6, 4});
  const testing::TemporaryDirectory folder;
  for (int steps = 0; steps < 6; ++steps) {
    const auto stopped = source(supply(documents));
    for (int step = 0; step < steps; ++step) stopped->next();
    const Tensor cursors = stopped->cursors();
    const Batch discarded = stopped->next();
    stopped->restore(cursors);
    const auto path = saved(*stopped, steps, folder.path());
    const auto resumed = source(supply(documents));
    resumed->restore(cursors);
    resumed->load_state(Checkpoint::open(path));
    const Batch again = resumed->next();
    for (const std::int64_t stream : {0, 1})
      EXPECT_EQ(row(again, stream), row(discarded, stream)) << steps;
  }
}

TEST(UserDocumentSource, ResumesExactlyFromUnfinishedDocument) {
  const Documents documents = numbered({3, 9, 2, 5, 0, 6, 4});
  const testing::TemporaryDirectory folder;
  for (int steps = 0; steps < 9; ++steps) {
    const auto first = source(supply(documents));
    for (int step = 0; step < steps; ++step) first->next();
    const auto path = saved(*first, steps, folder.path());
    std::vector<DocumentCursor> opened;
    const auto second = source(supply(documents, &opened));
    second->restore(first->cursors());
    second->load_state(Checkpoint::open(path));
    EXPECT_LE(opened.size(), 2u);
    for (int step = 0; step < 6; ++step) {
      const Batch expected = first->next();
      const Batch found = second->next();
      EXPECT_EQ(found.resets_state, expected.resets_state);
      for (std::int64_t r = 0; r < 2; ++r)
        EXPECT_EQ(row(found, r), row(expected, r)) << "after " << steps << " steps";
    }
  }
}

TEST(UserDocumentSource, RejectsChangedDocumentsOnResume) {
  const testing::TemporaryDirectory folder;
  const auto first = source(supply(numbered({9, 9})));
  first->next();
  const auto path = saved(*first, 1, folder.path());
  const auto second = source(supply(numbered({9, 3})));
  EXPECT_THAT(message_of<DataError>([&] { second->load_state(Checkpoint::open(path)); }),
              HasSubstr("resumes at token 4 of document 1 of epoch 0, which does not exist"));
}

TEST(UserDocumentSource, SavesResumableStateWhenDocumentsEnd) {
  const Documents documents = numbered({7, 2, 9, 5});
  const DocumentStreamFactory open = supply(documents);
  const auto once = source([&](const DocumentCursor& cursor) {
    return cursor.epoch > 0 ? DocumentStream() : open(cursor);
  });
  const auto again = source(open);
  once->next();
  again->next();
  std::int64_t steps = 1;
  EXPECT_THROW(
      for (; steps < 9; ++steps) {
        once->next();
        again->next();
      },
      EndOfDocuments);
  EXPECT_LT(steps, 9);
  EXPECT_THROW(once->next(), EndOfDocuments);
  const testing::TemporaryDirectory folder;
  const auto later = source(open);
  later->restore(once->cursors());
  later->load_state(Checkpoint::open(saved(*once, steps, folder.path())));
  for (int step = 0; step < 3; ++step) {
    const Batch expected = again->next();
    const Batch found = later->next();
    for (std::int64_t r = 0; r < 2; ++r) EXPECT_EQ(row(found, r), row(expected, r));
  }
}

TEST(UserDocumentSource, RejectsInvalidIdsAndEmptyEpochs) {
  EXPECT_THAT(message_of<DataError>([] {
                source(supply({{1, 2, 3, 4, 5}, {6, 100}}))->next();
              }),
              HasSubstr("document 1 of epoch 0: token 1: expected 0 to 99, found 100"));
  EXPECT_THAT(message_of<DataError>([] {
                source(supply({{}, {}}))->next();
              }),
              HasSubstr("epoch 0 has no tokens"));
}

}  // namespace
}  // namespace longspan::user_document_source_test
