#include "framework/profiling/gather_text.h"

namespace longspan {

void gather_text(const Communicator& world,
                 const std::function<std::string()>& next,
                 const std::function<void(std::string_view)>& take) {
  for (int rank = 0; rank < world.size(); ++rank)
    for (;;) {
      const std::string block =
          world.broadcast(rank == world.rank() ? next() : std::string(), rank);
      if (block.empty()) break;
      if (world.rank() == 0) take(block);
    }
}

}  // namespace longspan
