#include "framework/modeling/refinement.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace longspan {
namespace {

// Returns corrupted words; `element` is the random number index of the first one.
std::vector<std::int64_t> with_corruption(std::vector<std::int64_t> words,
                                          std::int64_t vocabulary,
                                          const Random& random,
                                          std::uint64_t element) {
  constexpr float kind = 0.33F / 3;
  const Random corruption = random.child("mistake"), others = random.child("word");
  for (std::size_t t = 0; t < words.size(); ++t) {
    const float drawn = corruption.uniform_at(element + t);
    const bool is_last = t + 1 == words.size();
    if (drawn < kind)
      words[t] = static_cast<std::int64_t>(others.word(element + t) %
                                           static_cast<std::uint64_t>(vocabulary));
    else if (drawn < 2 * kind && !is_last)
      words[t + 1] = words[t];
    else if (drawn < 3 * kind && drawn >= 2 * kind && !is_last)
      std::swap(words[t], words[t + 1]);
  }
  return words;
}

}  // namespace

RefinementPasses refined_passes(const NatTargets& options, const ForwardContext& pass, bool dry) {
  const std::int64_t most = options.passes - 1;
  if (!options.one_pass) return {.last = most};
  const std::uint32_t drawn = pass.random.child("refinement").child("passes").word(0);
  const std::int64_t last = dry ? most : static_cast<std::int64_t>(drawn) % options.passes;
  return {.last = last, .first_learnt = last};
}

Tensor next_refinement_input(const NatTargets& options,
                             const ModelInput& reading,
                             const Tensor& predictions,
                             const ForwardContext& pass) {
  const Tensor& targets = field_of(reading.fields, "targets");
  const Tensor tokens = field_of(reading.fields, "tokens").clone(MemoryTag::workspace);
  const std::int64_t rows = tokens.shape()[0], time = tokens.shape()[1];
  const Random random = pass.random.child("refinement");
  const Random coin = random.child("row");
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t* const gold = targets.data<std::int64_t>() + row * time;
    std::int64_t* const to = tokens.data<std::int64_t>() + row * time;
    // The tokens of a row are its first positions.
    const std::int64_t words =
        std::find_if(gold, gold + time, [](std::int64_t id) { return id < 0; }) - gold;
    const auto number = static_cast<std::uint64_t>(pass.first_stream + row);
    if (static_cast<double>(coin.uniform_at(number)) < options.denoised)
      std::ranges::copy(with_corruption({gold, gold + words},
                                        options.mask,
                                        random,
                                        number * static_cast<std::uint64_t>(time)),
                        to);
    else
      std::copy_n(predictions.data<std::int64_t>() + row * time, words, to);
  }
  return tokens;
}

}  // namespace longspan
