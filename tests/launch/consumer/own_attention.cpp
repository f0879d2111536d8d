// A model of the library with a custom attention type: each query attends to itself, to the two
// positions before it, and to every fourth earlier position.
#include <iostream>

#include "models/decoder.h"

using namespace longspan;

namespace {

constexpr std::int64_t near = 2;
constexpr std::int64_t apart = 4;

class NearAndApart : public AttentionOp {
 public:
  // The mask of the context is that of the model: causal, with padding.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext&) const override {
    AttentionMask mask = context.mask;
    mask.rules = mask.rules & (masks::window(near, 0) | masks::stride(apart));
    return attend(input, mask, {}, {});
  }
};

AttentionKind near_and_apart() {
  return {
      .name = "near_and_apart",
      .sees = "the keys close before a query and every fourth one",
      .alone = "its mask is its own",
      .has_probabilities = false,  // no dropout of probabilities
      .problem = [](const AttentionOptions&, const AttentionBuildOptions& setting) -> std::string {
        return setting.memory ? "near_and_apart does not support mem_len > 0" : "";
      },
      .make = [](const Scope&, const AttentionOptions&, const AttentionBuildOptions&)
          -> std::unique_ptr<AttentionOp> { return std::make_unique<NearAndApart>(); }};
}

// Returns the logits after ten tokens, of which token `changed` is replaced.
std::vector<float> scores(const Model& model, std::int64_t changed) {
  std::vector<std::int64_t> ids = {1, 2, 3, 4, 5, 6, 7, 1, 2, 3};
  ids[static_cast<std::size_t>(changed)] = 0;
  const ModelInput reading = {
      .fields = {{"tokens", Tensor::from<std::int64_t>(ids, {1, 10}, Device::cpu())}},
      .only_last = true};
  const Tensor values = model.scores(reading, {}).scores.value();
  return {values.span<float>().begin(), values.span<float>().end()};
}

}  // namespace

int main() {
  DecoderOptions options;
  options.common.layers = 1;
  options.common.width = 16;
  options.common.heads = 2;
  options.common.attention.added = {near_and_apart()};
  options.common.attention.kinds = {"near_and_apart"};
  const auto model = make_decoder(
      options, {.vocabulary = 8, .segment = 10, .device = Device::cpu(), .random = Random(1)});
  // The last query, at position 9, attends to 1, 5, 7, 8 and 9 in the only layer.
  for (std::int64_t position = 0; position < 9; ++position) {
    const bool seen = position >= 9 - near || (9 - position) % apart == 0;
    const bool changes = scores(*model, position) != scores(*model, 2);
    std::cout << position << (changes ? " is seen\n" : " is not seen\n");
    if (changes != seen) return 1;
  }
}
