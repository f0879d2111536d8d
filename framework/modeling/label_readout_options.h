// How tags and classes are read from hidden states: keys of the families that learn them.
#pragma once

#include <cstdint>

namespace longspan {

// softmax: each tag for itself; crf: a linear-chain conditional random field over the sentence.
enum class TaggingHeadType : std::uint8_t { softmax, crf };

// What of the positions of a text becomes its one vector.
enum class Pooling : std::uint8_t { first, mean, maximum, attention };

}  // namespace longspan
