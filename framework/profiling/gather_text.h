// Texts of all ranks on the first, a block at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "framework/distributed/communicator.h"

namespace longspan {

// Collective. `next` gives this rank's next block, empty when there are none left; `take` is called
// on the first rank with each block, rank after rank. No rank holds more than two blocks at a time.
void gather_text(const Communicator& world,
                 const std::function<std::string()>& next,
                 const std::function<void(std::string_view block)>& take);

}  // namespace longspan
