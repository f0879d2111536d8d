#include "framework/planning/needed_flops.h"

#include <gtest/gtest.h>

#include "framework/comm/dry.h"
#include "models/decoder.h"
#include "models/transformer_xl.h"

namespace longspan {
namespace {

constexpr std::int64_t vocabulary = 13;
constexpr std::int64_t batch = 3, segment = 96;

// heads * head_width is not the width.
ModelOptions options_of(std::vector<std::string> kinds = {"causal"}) {
  ModelOptions common = {.layers = 2, .width = 16, .heads = 4, .head_width = 6, .feed_forward = 40};
  common.attention.kinds = std::move(kinds);
  common.attention.window = {20};
  common.attention.stride = 16;
  common.attention.summary = 4;
  common.attention.block = 16;
  common.attention.lsh.chunk = 16;
  return common;
}

Settings settings_of(BodyFactory body) {
  Settings settings;
  settings.data.batch = batch;
  settings.data.segment = segment;
  settings.body = std::move(body);
  return settings;
}

Fields fields_of(std::int64_t rows) {
  const Device device = Device::dry();
  Fields fields;
  for (const char* name : {"tokens", "targets"})
    fields[name] = Tensor::empty({rows, segment}, DType::i64, device);
  return fields;
}

NeededFlops::Count count_of(const Settings& settings, std::int64_t remembered) {
  return NeededFlops(settings, vocabulary).of(fields_of(batch), 1, remembered).value();
}

void expect_formula(const BodyFactory& factory, std::int64_t remembered, const std::string& what) {
  const Settings settings = settings_of(factory);
  const auto model = settings.make_model(model_setting(
      settings, vocabulary, dry_mesh({}, 0, std::make_shared<Traffic>()), Device::dry()));
  const FlopCount formula = model->body().flops(batch, segment, remembered);
  const NeededFlops::Count walked = count_of(settings, remembered);
  EXPECT_EQ(walked.forward, formula.forward) << what << ", memory " << remembered;
  EXPECT_EQ(walked.backward, formula.backward) << what << ", memory " << remembered;
}

TEST(NeededFlops, ADecoderWalkedIsTheFormula) {
  for (const auto& kinds : std::vector<std::vector<std::string>>{{"causal"},
                                                                 {"local"},
                                                                 {"strided"},
                                                                 {"fixed"},
                                                                 {"local+global"},
                                                                 {"global"},
                                                                 {"lsh"},
                                                                 {"lsh", "causal"},
                                                                 {"local/strided"}})
    for (const bool tied : {true, false})
      for (const bool projections : {true, false})
        for (const ResidualKind residual : {ResidualKind::plain, ResidualKind::reversible}) {
          DecoderOptions options;
          options.common = options_of(kinds);
          options.common.attention.global_projections = projections && kinds.front() == "global";
          if (projections && kinds.front() != "global") continue;
          options.common.tied_embeddings = tied && residual == ResidualKind::plain;
          options.common.residual = residual;
          if (residual == ResidualKind::reversible) options.common.norm = NormPlacement::pre;
          expect_formula(decoder_body(options),
                         0,
                         kinds.front() + (kinds.size() > 1 ? "," + kinds[1] : "") +
                             (residual == ResidualKind::plain ? "" : " reversible") +
                             (tied ? "" : " untied") + (projections ? " projections" : ""));
        }
}

TEST(NeededFlops, ATransformerXlWalkedIsTheFormula) {
  for (const auto& kinds :
       std::vector<std::vector<std::string>>{{"causal"}, {"local"}, {"strided"}})
    for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post})
      for (const bool tied : {true, false})
        for (const ResidualKind residual : {ResidualKind::plain, ResidualKind::reversible})
          for (const bool same_length : {true, false})
            for (const std::int64_t remembered : {0, 40, 64}) {
              TransformerXlOptions options;
              options.common = options_of(kinds);
              options.common.norm = norm;
              options.common.residual = residual;
              options.same_length = same_length;
              if (residual == ResidualKind::reversible && (norm == NormPlacement::post || tied))
                continue;
              options.common.tied_embeddings = tied;
              options.memory = 64;
              expect_formula(transformer_xl_body(options),
                             remembered,
                             kinds.front() + (norm == NormPlacement::pre ? " pre" : " post") +
                                 (residual == ResidualKind::plain ? "" : " reversible") +
                                 (tied ? "" : " untied") + (same_length ? " same" : ""));
            }
}

}  // namespace
}  // namespace longspan
