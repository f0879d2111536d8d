#include <gtest/gtest.h>

#include <string_view>

#include "framework/optim/precision_options.h"

namespace longspan::loss_scale_test {
namespace {

constexpr LossScaleOptions options = {.initial = 64, .growth_interval = 3, .hysteresis = 2};

// The scale of each step; 'o': overflow, '.': finite gradients.
std::vector<double> scales(LossScaler& scale, std::string_view steps) {
  std::vector<double> result;
  for (const char step : steps) {
    result.push_back(scale.value());
    scale.update(step == '.');
  }
  result.push_back(scale.value());
  return result;
}

std::vector<double> scales(std::string_view steps) {
  LossScaler scale(options);
  return scales(scale, steps);
}

using Scales = std::vector<double>;

TEST(LossScaler, HalvesAfterHysteresisIsUsedUp) {
  EXPECT_EQ(scales("ooo."), (Scales{64, 64, 32, 16, 16}));
}

TEST(LossScaler, DoublesAfterGrowthInterval) {
  EXPECT_EQ(scales("......"), (Scales{64, 64, 64, 128, 128, 128, 256}));
  EXPECT_EQ(scales("..o..."), (Scales{64, 64, 64, 64, 64, 64, 128}));
}

TEST(LossScaler, RestoresHysteresisOnlyOnGrowth) {
  // Good steps alone do not restore the hysteresis.
  EXPECT_EQ(scales("o..o.o"), (Scales{64, 64, 64, 64, 32, 32, 16}));
  EXPECT_EQ(scales("o...oo"), (Scales{64, 64, 64, 64, 128, 128, 64}));
}

TEST(LossScaler, NeverFallsBelowOne) {
  LossScaler scale({.initial = 2, .growth_interval = 2, .hysteresis = 1});
  EXPECT_EQ(scales(scale, "ooo.."), (Scales{2, 1, 1, 1, 1, 2}));
}

TEST(LossScaler, ResumesExactlyFromCheckpoint) {
  const std::string steps = "o..o...o.ooo....o...oo";
  LossScaler unbroken(options);
  scales(unbroken, steps);
  for (std::size_t stop = 0; stop <= steps.size(); ++stop) {
    LossScaler before(options);
    scales(before, std::string_view(steps).substr(0, stop));
    Scalars saved;
    before.save(saved);
    LossScaler after(options);
    after.restore(saved);
    scales(after, std::string_view(steps).substr(stop));
    EXPECT_EQ(scales(after, "..o"), [&] {
      LossScaler copy = unbroken;
      return scales(copy, "..o");
    }()) << stop;
  }
}

TEST(LossScaler, KeepsInitialScaleIfCheckpointHasNone) {
  LossScaler scale(options);
  scale.restore(Scalars());
  EXPECT_EQ(scale.value(), options.initial);
}

}  // namespace
}  // namespace longspan::loss_scale_test
