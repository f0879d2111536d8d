#include "framework/model/model.h"

#include <algorithm>

#include "framework/core/queued_copy.h"

namespace longspan {
namespace {

// The columns of ids [streams, time] at the positions, one after another.
Tensor columns_at(const Tensor& ids, const Ranges& positions) {
  const std::int64_t streams = ids.shape()[0];
  const std::int64_t time = ids.shape()[1];
  if (positions == Ranges{{0, time}}) return ids;
  Tensor result = Tensor::empty(
      {streams, count_of(positions)}, ids.dtype(), ids.device(), MemoryTag::workspace);
  auto* to = result.data<std::int64_t>();
  for (std::int64_t stream = 0; stream < streams; ++stream)
    for (const Range& range : positions)
      to = std::copy_n(ids.data<std::int64_t>() + stream * time + range.begin, range.count(), to);
  return result;
}

}  // namespace

template <typename Compute>
SegmentResult Model::read(const Segment& segment, const Pass& pass, const Compute& compute) const {
  const ProcessMesh& mesh = parameters().mesh();
  const std::int64_t time = segment.tokens.shape()[1];
  Pass divided = pass;
  divided.time = divide_time(mesh, time);
  divided.memory = divide_memory(mesh, segment.memory.length());
  Segment part = segment;
  const auto of_this_rank = [&](const Tensor& ids) {
    return queued_to(columns_at(ids, divided.time.inside()), parameters().device());
  };
  part.tokens = of_this_rank(segment.tokens);
  if (segment.targets.defined()) part.targets = of_this_rank(segment.targets);
  SegmentResult result = compute(part, divided);
  if (!result.memory.layers.empty())
    result.memory.all_rows = std::min(segment.longest_memory, segment.memory.length() + time);
  return result;
}

SegmentResult Model::losses(const Segment& segment, const Pass& pass) const {
  return read(segment, pass, [this](const Segment& part, const Pass& divided) {
    return losses_of(part, divided);
  });
}

SegmentResult Model::logits(const Segment& segment, const Pass& pass) const {
  return read(segment, pass, [this](const Segment& part, const Pass& divided) {
    return logits_of(part, divided);
  });
}

}  // namespace longspan
