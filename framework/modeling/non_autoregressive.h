// Targets that are said all at once: a decoder reads them with some of their words masked, or with
// words that may be wrong, and says what stands there (Gu et al. 2018; Lee et al. 2018;
// Ghazvininejad et al. 2019). Their lengths are said by the encoder.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/random.h"
#include "framework/data/batch.h"

namespace longspan {

enum class NatObjective : std::uint8_t {
  random,  // floor(n u) + 1 of n words, u uniform in [0, 1), are masked and said, as in fairseq
  all,     // no word is there to be read, all are said
  refined  // likewise, and then said again from what was said (Lee et al. 2018)
};

// What stands for words that are not there.
enum class NatDecoderInput : std::uint8_t {
  mask,
  source  // of n words, word t is word uniform_copy_position(t, n, m) of the m of the source
};

// A target that is said all at once.
struct NatOptions {
  NatObjective masking = NatObjective::random;
  NatDecoderInput first = NatDecoderInput::mask;  // of `all` and `refined`
  // Of `refined`: how often words are said in training, what part of the rows reads true words of
  // which some are wrong instead of what was said before, and whether only one time, drawn anew in
  // each step, is learned from.
  std::int64_t passes = 4;
  double denoised = 0.5;
  bool one_pass = false;

  double length_weight = 0.1;  // of the loss of lengths
  // Lengths are said as differences from the source's, or as they are.
  bool length_offset = true;
  bool length_detached = false;  // no gradient of that loss goes into the encoder
};

// The batch of pairs (data/parallel_examples.h) as such a decoder reads it: `tokens` are the
// targets, the end of the sentence included, with `mask` or what NatDecoderInput says where a word
// is to be said; `targets` are these words alone; the count "tokens" is theirs. The end is never
// one of them. With NatObjective::random which words are is a function of (seed, step, global row,
// position), of which `random` says the first two; without it, as without training, all are.
Batch prepare_nat_batch(const Batch& batch,
                        std::int64_t mask,
                        const NatOptions& options,
                        const std::optional<Random>& random);

// The word of a source of m words that word t of n stands at: t (m - 1) / (n - 1), rounded, a half
// to the even one; of one word the first.
std::int64_t uniform_copy_position(std::int64_t t, std::int64_t n, std::int64_t m);

// The class of a length, of `length_classes`: how many tokens a target has more than its source, or
// has, neither with its end. What is further away is in the last or the first.
inline constexpr std::int64_t length_classes = 256;
std::int64_t length_class(std::int64_t source, std::int64_t target, bool offset);
// The length of such a target; at least 1.
std::int64_t length_of_class(std::int64_t source, std::int64_t length_class, bool offset);

}  // namespace longspan
