#include "framework/profiling/gather_text.h"

#include <cstring>

namespace longspan {
namespace {

// Sends the block of rank `from` to the first rank. The other ranks exchange as many bytes with
// themselves, since all must take part. Returns false on all ranks where the block is empty.
bool send_to_first(const Communicator& world,
                   const std::string& block,
                   int from,
                   const std::function<void(std::string_view)>& take) {
  const bool is_first = world.rank() == 0;
  const bool is_sender = world.rank() == from;
  const std::int64_t bytes = world.all_reduce(
      is_sender ? static_cast<std::int64_t>(block.size()) : std::int64_t{0}, Reduction::maximum);
  if (bytes == 0) return false;
  const int partner = is_first ? from : (is_sender ? 0 : world.rank());
  const Device device = Device::cpu();
  const Tensor mine = Tensor::zeros({bytes}, DType::u8, device, MemoryTag::workspace);
  const Tensor theirs = Tensor::zeros({bytes}, DType::u8, device, MemoryTag::workspace);
  if (is_sender) std::memcpy(mine.bytes(), block.data(), block.size());
  world.exchange(mine, partner, theirs, partner);
  if (is_first)
    take({reinterpret_cast<const char*>(theirs.bytes()), static_cast<std::size_t>(bytes)});
  return true;
}

}  // namespace

void gather_text(const Communicator& world,
                 const std::function<std::string()>& next,
                 const std::function<void(std::string_view)>& take) {
  if (world.rank() == 0)
    for (std::string block = next(); !block.empty(); block = next()) take(block);
  for (int rank = 1; rank < world.size(); ++rank)
    while (send_to_first(world, rank == world.rank() ? next() : std::string(), rank, take)) {
    }
}

}  // namespace longspan
