#include "framework/core/random.h"

#include <Random123/philox.h>

namespace longspan {

std::array<std::uint32_t, 4> Random::block(std::uint64_t index) const {
  return philox<r123::Philox4x32>(index);
}

}  // namespace longspan
