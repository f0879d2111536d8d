// Gathers text of all ranks on the first rank, in blocks.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "framework/distributed/communicator.h"

namespace longspan {

// Collective. `next` returns this rank's next block, empty at the end; `take` receives each block
// on the first rank, in rank order. No rank holds more than two blocks at a time.
void gather_text(const Communicator& world,
                 const std::function<std::string()>& next,
                 const std::function<void(std::string_view block)>& take);

}  // namespace longspan
