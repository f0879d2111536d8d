#include "framework/modeling/argmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/autograd/collectives.h"
#include "framework/core/async_copy.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

namespace {

template <typename T>
void choose(const Tensor& scores, const Tensor& best) {
  const std::int64_t classes = scores.shape().width();
  const T* row = scores.data<T>();
  for (std::int64_t& id : best.span<std::int64_t>()) {
    id = std::max_element(row, row + classes) - row;
    row += classes;
  }
}

}  // namespace

Tensor argmax_classes(const Tensor& scores) {
  const Tensor here = scores.to_host();
  const Tensor best =
      Tensor::empty({scores.shape().rows()}, DType::i64, here.device(), MemoryTag::workspace);
  if (scores.dtype() == DType::f64)
    choose<double>(here, best);
  else
    choose<float>(here, best);
  return best;
}

namespace {

// Returns which ids of this rank's shard are candidates.
std::vector<char> allowed_of(const ShardRange& part,
                             std::int64_t size,
                             std::span<const std::int64_t> forbidden) {
  std::vector<char> allowed(static_cast<std::size_t>(part.count), 0);
  for (std::int64_t i = 0; i < part.count; ++i)
    allowed[static_cast<std::size_t>(i)] = part.begin + i < size ? 1 : 0;
  for (const std::int64_t id : forbidden)
    if (id >= part.begin && id < part.begin + part.count)
      allowed[static_cast<std::size_t>(id - part.begin)] = 0;
  return allowed;
}

// Finds the maximum of each row, NaN where a score is NaN, and its id, or part.total.
void find_best(const Tensor& scores,
               const ShardRange& part,
               const std::vector<char>& allowed,
               const Tensor& largest,
               const Tensor& ids) {
  with_floating_type(scores.dtype(), [&]<typename T>(TypeTag<T>) {
    const T* row = scores.data<T>();
    for (std::int64_t i = 0; i < ids.elements(); ++i, row += part.count) {
      double best = -std::numeric_limits<double>::infinity();
      std::int64_t id = part.total;
      for (std::int64_t word = 0; word < part.count; ++word) {
        const auto score = static_cast<double>(static_cast<Accumulator<T>>(row[word]));
        const bool is_found = allowed[static_cast<std::size_t>(word)] != 0 && score > best;
        if (!is_found && !std::isnan(score)) continue;
        best = score;  // no later score compares greater than NaN
        id = part.begin + word;
      }
      largest.data<double>()[i] = best;
      ids.data<std::int64_t>()[i] = id;
    }
  });
}

// Gathers values [rows, positions] of the context ranks: all positions on each rank, f64.
Tensor full_rows(const Tensor& values, std::int64_t time, const ProcessMesh& mesh) {
  if (mesh.context.size() == 1) return values;
  const std::int64_t rows = values.shape()[0];
  const Tensor all = Tensor::zeros({rows, time}, DType::f64, values.device(), MemoryTag::workspace);
  const double* from = values.data<double>();
  const Ranges positions = shard_sequence(mesh, time).inside();
  for (std::int64_t row = 0; row < rows; ++row)
    for (const Range& range : positions)
      for (std::int64_t t = range.begin; t < range.end; ++t)
        all.data<double>()[row * time + t] = *from++;
  mesh.context.all_reduce(all, Reduction::sum);
  return all;
}

}  // namespace

ArgmaxTokens argmax_tokens(const Tensor& scores,
                           std::int64_t time,
                           const ShardRange& part,
                           const ProcessMesh& mesh,
                           std::int64_t size,
                           std::span<const std::int64_t> forbidden) {
  const NoGradGuard unrecorded;
  const std::int64_t rows = scores.shape()[0], held = scores.shape()[1];
  const Tensor here = scores.to_host();
  const Device host = here.device();
  const Tensor largest = Tensor::empty({rows, held}, DType::f64, host, MemoryTag::workspace);
  const Tensor ids = Tensor::empty({rows, held}, DType::i64, host, MemoryTag::workspace);
  find_best(here, part, allowed_of(part, size, forbidden), largest, ids);
  if (mesh.tensor.size() > 1) {
    const Tensor own = largest.clone(MemoryTag::workspace);
    mesh.tensor.all_reduce(largest, Reduction::maximum);
    for (std::int64_t i = 0; i < ids.elements(); ++i)
      if (!(own.data<double>()[i] == largest.data<double>()[i]))
        ids.data<std::int64_t>()[i] = part.total;
    mesh.tensor.all_reduce(ids, Reduction::minimum);
  }
  for (std::int64_t& id : ids.span<std::int64_t>())
    if (id == part.total) id = 0;
  const Tensor losses =
      cast(cross_entropy(Variable(scores),
                         copy_async(ids.reshape({rows * held}), scores.device()),
                         {.vocabulary = part.total, .vocabulary_begin = part.begin},
                         mesh.tensor),
           DType::f64)
          .value()
          .to_host();
  const Tensor words = Tensor::empty({rows, held}, DType::f64, host, MemoryTag::workspace);
  const Tensor certain = Tensor::empty({rows, held}, DType::f64, host, MemoryTag::workspace);
  for (std::int64_t i = 0; i < ids.elements(); ++i) {
    const bool is_number = std::isfinite(largest.data<double>()[i]);
    words.data<double>()[i] = static_cast<double>(is_number ? ids.data<std::int64_t>()[i] : 0);
    certain.data<double>()[i] =
        is_number ? -losses.data<double>()[i] : std::numeric_limits<double>::quiet_NaN();
  }
  const Tensor found = full_rows(words, time, mesh);
  ArgmaxTokens result = {.ids = Tensor::empty({rows, time}, DType::i64, host, MemoryTag::workspace),
                         .log_probabilities = full_rows(certain, time, mesh)};
  for (std::int64_t i = 0; i < rows * time; ++i)
    result.ids.data<std::int64_t>()[i] = static_cast<std::int64_t>(found.data<double>()[i]);
  return result;
}

}  // namespace longspan
