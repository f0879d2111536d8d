// Cross-attention of decoder layers to encoder layers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/nn/attention/attention.h"

namespace longspan {

// Encoder layer outputs E_1 ... E_n that decoder layer l of m attends to.
enum class CrossAttentionMapping : std::uint8_t {
  last,     // E_n (Vaswani et al. 2017)
  same,     // E_l; n = m
  reverse,  // E_(n + 1 - l); n = m
  mix,      // learned mixture of all, weighted by softmax(a_l) (Bapna et al. 2018)
  full      // each one separately, with averaged results
};
// Returns whether the decoder receives the outputs of all layers in order, or only the last.
inline bool reads_all_layers(CrossAttentionMapping wiring) {
  return wiring != CrossAttentionMapping::last;
}
// Returns the reason why stacks of these depths do not support the mapping. Otherwise empty.
std::string validate_wiring(CrossAttentionMapping wiring,
                            std::int64_t encoder_layers,
                            std::int64_t decoder_layers);

// Cross-attention of one decoder layer. Parameters: those of MultiHeadAttention and, for `mix`,
// "mixture" [encoder layers]: a_l, initialized with zeros.
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

  // x: [batch, time, width]. sides: as reads_all_layers returns, with equal length and sharding. A
  // row without encoder positions gets only the output bias.
  Variable operator()(const Variable& x,
                      const std::vector<EncoderOutput>& sides,
                      const ForwardContext& pass) const;
  // As MultiHeadAttention::probabilities, averaged over several encoder outputs.
  Variable probabilities(const Variable& x,
                         const std::vector<EncoderOutput>& sides,
                         std::int64_t heads,
                         const ForwardContext& pass) const;

 private:
  // Calls look(side, pass) for each encoder output this layer attends to, and averages the results.
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
