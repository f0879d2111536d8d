#include "framework/planning/meta_rollout.h"

#include <algorithm>

#include "framework/rl/step_reader.h"

namespace longspan {

std::vector<RecurrentState> meta_rollout(const Model& model, const MetaBatch& wanted) {
  const NoGradGuard unrecorded;
  const std::int64_t rows = streams_of_rank(wanted.data.batch,
                                            wanted.mesh.data_coordinate(),
                                            wanted.mesh.data.size(),
                                            "data.global_batch_size")
                                .count();
  const auto fields = [&](std::int64_t time) -> Fields {
    const auto made = [&](const Shape& shape, DType dtype) {
      return Tensor::empty(shape, dtype, wanted.host, MemoryTag::workspace);
    };
    return {{"tokens", made({rows, time}, DType::i64)},
            {"previous_action", made({rows, time}, DType::i64)},
            {"reward", made({rows, time}, DType::f64)},
            {"earlier", made({rows}, DType::i64)}};
  };
  // A few long segments fill a memory of many short ones.
  constexpr std::int64_t most = 4;
  const std::int64_t segment = wanted.data.segment, longest = model.body().max_mem_len();
  const std::int64_t at_once = std::max(segment, (longest + most - 1) / most);
  RecurrentState begun;
  while (begun.length() < longest)
    begun = model
                .scores({.fields = fields(at_once), .carried = begun, .max_mem_len = longest},
                        ForwardContext())
                .carried;
  model.parameters().device().allocator().trim();
  model.parameters().device().allocator().reset_peak();
  IncrementalReader reader(model, segment);
  reader.begin(begun);
  for (std::int64_t step = 0; step < segment; ++step) reader.read(fields(1));
  return {begun, reader.carried()};
}

}  // namespace longspan
