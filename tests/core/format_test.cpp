// Counts and source locations as text.
#include "framework/core/format.h"

#include <gtest/gtest.h>

namespace longspan::format_test {
namespace {

std::string here(const std::source_location& place = std::source_location::current()) {
  return short_function_name(place.function_name());
}

template <typename T>
struct Holder {
  std::string asked() const { return here(); }
  std::string operator()(const std::string&) const { return here(); }
};

std::string of_lambda() {
  return [](int) { return here(); }(1);
}

TEST(Pluralize, FollowsCount) {
  EXPECT_EQ(pluralize(1, "rank"), "1 rank");
  EXPECT_EQ(pluralize(0, "rank"), "0 ranks");
  EXPECT_EQ(pluralize(1, "batch", "batches"), "1 batch");
  EXPECT_EQ(pluralize(2, "batch", "batches"), "2 batches");
}

TEST(ShortFunctionName, ReturnsNameOnly) {
  EXPECT_EQ(Holder<std::string>().asked(), "Holder::asked");
  EXPECT_EQ(Holder<int>()(""), "Holder");
  EXPECT_EQ(of_lambda(), "of_lambda");
}

TEST(ShortFunctionName, ParsesCompilerSpellings) {
  for (const auto& [words, name] : {
           std::pair("longspan::Variable longspan::linear(const longspan::Variable&)", "linear"),
           std::pair("int longspan::{anonymous}::product(const std::string&, int (*)(int))",
                     "product"),
           std::pair("longspan::linear(int)::<lambda(longspan::Gradients&)>", "linear"),
           std::pair("void longspan::{anonymous}::A::go() const [with T = std::basic_string<char>]",
                     "A::go"),
           std::pair(
               "longspan::{anonymous}::A::go<std::basic_string<char> >() const::<lambda(int)>",
               "A::go"),
           std::pair("std::map<int, long int> longspan::{anonymous}::made(std::map<int, int>)",
                     "made"),
           std::pair("longspan::Holder<T>::Holder(int) [with T = int]", "Holder"),
           std::pair("auto longspan::linear(int)::(anonymous class)::operator()(int) const",
                     "linear"),
           std::pair("longspan::A::go()::(lambda)::operator()(longspan::Gradients &) const",
                     "A::go"),
           std::pair("main", "main"),
           std::pair("", ""),
       })
    EXPECT_EQ(short_function_name(words), name) << words;
}

TEST(FormatSourceLocation, StartsAtRepositoryRoot) {
  const std::string text = format_source_location(std::source_location::current());
  EXPECT_TRUE(text.starts_with("tests/core/format_test.cpp:")) << text;
}

}  // namespace
}  // namespace longspan::format_test
