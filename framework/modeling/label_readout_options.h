// Options of tagging and classification heads.
#pragma once

#include <cstdint>

namespace longspan {

// softmax: independent tags; crf: a linear-chain conditional random field over the sentence.
enum class TaggingHeadType : std::uint8_t { softmax, crf };

// How positions are pooled into one vector.
enum class Pooling : std::uint8_t { first, mean, maximum, attention };

}  // namespace longspan
