// What a decoder's layers look at of an encoder's layers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/nn/attention/attention.h"

namespace longspan {

// Which of the outputs E_1 ... E_n of an encoder's layers the decoder's layer l of m looks at.
enum class CrossAttentionMapping : std::uint8_t {
  last,     // E_n (Vaswani et al. 2017)
  same,     // E_l; n = m
  reverse,  // E_(n + 1 - l); n = m
  mix,      // a learned sum of all: softmax(a_l) weighs them (Bapna et al. 2018)
  full      // each by itself; what it finds is averaged
};
// Whether the decoder is given the outputs of all layers, in their order, or of the last alone.
inline bool reads_all_layers(CrossAttentionMapping wiring) {
  return wiring != CrossAttentionMapping::last;
}
// Why stacks of so many layers cannot be wired so, as a sentence; empty where they can.
std::string wiring_problem(CrossAttentionMapping wiring,
                           std::int64_t encoder_layers,
                           std::int64_t decoder_layers);

// The cross-attention of one of the decoder's layers. Beside the parameters of attention, with
// `mix`, "mixture" [encoder layers]: a_l, which begins as zeros.
class CrossAttention {
 public:
  struct Options {
    MultiHeadAttention::Options attention = {};
    CrossAttentionMapping wiring = CrossAttentionMapping::last;
    std::int64_t layer = 0;           // l - 1
    std::int64_t encoder_layers = 1;  // n
  };
  CrossAttention(const Scope& scope,
                 const Options& options,
                 std::unique_ptr<AttentionOp> mechanism);

  // x: [batch, time, width]. sides: as reads_all_layers says, of one length and one division of
  // time. A row whose side has no positions gets the output's bias alone.
  Variable operator()(const Variable& x,
                      const std::vector<EncoderOutput>& sides,
                      const ForwardContext& pass) const;
  // As MultiHeadAttention::probabilities; of several sides their average.
  Variable probabilities(const Variable& x,
                         const std::vector<EncoderOutput>& sides,
                         std::int64_t heads,
                         const ForwardContext& pass) const;

 private:
  // Calls look(side, pass) for each that this layer looks at, and averages what it gives.
  template <typename Look>
  Variable each_side(const std::vector<EncoderOutput>& sides,
                     const ForwardContext& pass,
                     const Look& look) const;
  EncoderOutput mixture(const std::vector<EncoderOutput>& sides) const;

  MultiHeadAttention attention_;
  CrossAttentionMapping wiring_;
  std::size_t layer_;
  std::size_t encoder_layers_;
  Weight mixture_;
  Variable units_;  // for the softmax
};

}  // namespace longspan
