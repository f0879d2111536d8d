#include "launch/reference.h"

#include <gtest/gtest.h>

namespace longspan {
namespace {

TEST(Reference, HasEveryKeyOfEveryFamilyOnce) {
  const auto reference = configuration_reference();
  int families_key = 0;
  int width = 0;
  int same_length = 0;
  std::string last_section;
  std::vector<std::string> sections;
  for (const OptionDescription& option : reference) {
    EXPECT_FALSE(option.documentation.empty()) << option.key;
    families_key += option.key == "model.family";
    width += option.key == "model.width";
    if (option.key == "model.same_length") {
      ++same_length;
      EXPECT_TRUE(option.documentation.ends_with(" (family transformer_xl)"));
    }
    const std::string section = option.key.substr(0, option.key.find('.'));
    if (section != last_section) sections.push_back(section);
    last_section = section;
  }
  EXPECT_EQ(families_key, 1);
  EXPECT_EQ(width, 1);
  EXPECT_EQ(same_length, 1);
  EXPECT_EQ(sections,
            (std::vector<std::string>{"run",
                                      "model",
                                      "data",
                                      "training",
                                      "parallel",
                                      "memory",
                                      "precision",
                                      "checkpoint",
                                      "metrics"}));
}

}  // namespace
}  // namespace longspan
