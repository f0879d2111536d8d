// Non-autoregressive decoding. A decoder reads targets with some tokens masked or replaced and
// predicts them in parallel (Gu et al. 2018; Lee et al. 2018; Ghazvininejad et al. 2019). The
// encoder predicts target lengths.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/random.h"
#include "framework/data/batch.h"

namespace longspan {

enum class NatObjective : std::uint8_t {
  random,  // masks and predicts floor(n u) + 1 of n tokens, u uniform in [0, 1) (fairseq)
  all,     // all tokens are masked and predicted
  refined  // as `all`, then predicted again from the previous predictions (Lee et al. 2018)
};

// Decoder input at positions without a token.
enum class NatDecoderInput : std::uint8_t {
  mask,
  source  // token t of n is token uniform_copy_position(t, n, m) of the m source tokens
};

// Options of non-autoregressive training.
struct NatOptions {
  NatObjective masking = NatObjective::random;
  NatDecoderInput first = NatDecoderInput::mask;  // for `all` and `refined`
  // For `refined`: the number of passes in training, and the fraction of rows that read corrupted
  // gold tokens instead of previous predictions. `one_pass`: learn only from one pass, drawn in
  // each step.
  std::int64_t passes = 4;
  double denoised = 0.5;
  bool one_pass = false;

  double length_weight = 0.1;  // of the length loss
  // Lengths are predicted as differences from the source length, or directly.
  bool length_offset = true;
  bool length_detached = false;  // the length loss has no gradient into the encoder
};

// Returns the batch of pairs (data/parallel_examples.h) as a non-autoregressive decoder reads it.
// `tokens` are the targets, with the end of the sentence; tokens to predict are replaced by `mask`
// or as NatDecoderInput gives. `targets` are only the tokens to predict, which the count "tokens"
// counts. The end of the sentence is never masked. With NatObjective::random the choice is a
// function of (seed, step, global row, position); `random` gives the first two. Without `random`,
// as outside training, all tokens are masked.
Batch prepare_nat_batch(const Batch& batch,
                        std::int64_t mask,
                        const NatOptions& options,
                        const std::optional<Random>& random);

// Returns the source position of target token t of n: t (m - 1) / (n - 1), rounded half to even; 0
// for n = 1. m: source length.
std::int64_t uniform_copy_position(std::int64_t t, std::int64_t n, std::int64_t m);

// Class of a length: the number of tokens, or the difference between target and source, both
// without the end of the sentence. Values out of range map to the first or the last class.
inline constexpr std::int64_t length_classes = 256;
std::int64_t length_class(std::int64_t source, std::int64_t target, bool offset);
// Returns the target length of a class; at least 1.
std::int64_t length_of_class(std::int64_t source, std::int64_t length_class, bool offset);

}  // namespace longspan
