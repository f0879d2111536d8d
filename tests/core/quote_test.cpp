#include "framework/core/quote.h"

#include <gtest/gtest.h>

namespace longspan::quote_test {
namespace {

using Parts = std::vector<std::string>;

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("a,,b,", ','), (Parts{"a", "", "b", ""}));
  EXPECT_EQ(split("", ','), (Parts{""}));
}

TEST(Split, DoesNotSplitAtOtherCharacters) {
  EXPECT_EQ(split("sliding+strided/dense", '/'), (Parts{"sliding+strided", "dense"}));
}

}  // namespace
}  // namespace longspan::quote_test
