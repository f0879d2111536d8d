// Documents that user code supplies to the ranks.
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/tasks/user_document_source.h"
#include "tests/support/mesh_runner.h"

namespace longspan::user_document_source_mesh_test {
namespace {

// Documents of five tokens. Document number `other` starts with another token; -1: none.
DocumentStreamFactory supply(std::int64_t other = -1) {
  return [=](const DocumentCursor& cursor) -> DocumentStream {
    return [=, document = cursor.document]() mutable {
      const std::int64_t first = document == other ? 90 : document % 50;
      ++document;
      return std::optional(std::vector<std::int64_t>{first, 1, 2, 3, 4});
    };
  };
}

std::unique_ptr<BatchSource> source(const DocumentStreamFactory& open, const ProcessMesh& mesh) {
  return user_document_source(
      {.open = open, .layout = {.streams = 4, .segment = 4}, .vocabulary = 100, .mesh = mesh});
}

std::string next_error(BatchSource& source) {
  try {
    source.next();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(UserDocumentSourceMesh, EveryRankReportsDifferentDocuments) {
  testing::for_each_layout(testing::data_and_tensor_layouts(), [](const ProcessMesh& mesh) {
    const bool is_last = mesh.world.rank() == mesh.world.size() - 1;
    const bool is_alone = mesh.world.size() == 1;
    const auto batches = source(supply(is_last ? 5 : -1), mesh);
    EXPECT_EQ(next_error(*batches), "");
    const std::string message = next_error(*batches);
    if (is_alone)
      EXPECT_EQ(message, "");
    else
      EXPECT_NE(message.find("ranks received different documents up to document 7 of epoch 0"),
                std::string::npos)
          << message;
  });
}

TEST(UserDocumentSourceMesh, EveryRankReportsEarlyEndOnOneRank) {
  testing::for_each_layout({{.data = 2}, {.tensor = 2}}, [](const ProcessMesh& mesh) {
    const DocumentStreamFactory all = supply();
    const auto batches = source(
        [&](const DocumentCursor& cursor) {
          return [next = all(cursor), left = mesh.world.rank() == 1 ? 6 : 99]() mutable {
            return left-- > 0 ? next() : std::nullopt;
          };
        },
        mesh);
    EXPECT_EQ(next_error(*batches), "");
    EXPECT_NE(next_error(*batches).find("ranks received different documents"), std::string::npos);
  });
}

}  // namespace
}  // namespace longspan::user_document_source_mesh_test
