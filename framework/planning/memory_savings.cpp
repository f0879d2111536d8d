// Settings that reduce the memory of a run.
#include <algorithm>
#include <bit>

#include "framework/core/format.h"
#include "framework/planning/plan.h"

namespace longspan {
namespace {

// Returns the largest power of two that is at most half of `tokens`.
std::int64_t longest_chunk_below(std::int64_t tokens) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(tokens))) / 2;
}

}  // namespace

std::vector<MemorySaving> plan_savings(const Reconfigure& reconfigure,
                                       const StepPlan& plan,
                                       double memory,
                                       const DataSizes& ids) {
  const MeshShape& mesh = plan.mesh;
  const std::string recompute = "memory.recompute_granularity=full";
  const std::string each_layer = "memory.recompute_num_layers=1";
  const std::string reversible = "model.residual.type=reversible";
  const std::string feed_forward = "memory.num_feed_forward_chunks=16";
  const std::string loss = "memory.num_loss_chunks=16";
  const std::string chunk = "memory.bptt_chunk_length=";
  // The plan runs every microbatch of a step.
  const std::shared_ptr<const RunConfig> settings = reconfigure({});
  const bool reads_streams = settings->task_kind().reads_streams;
  const std::int64_t streams =
      reads_streams ? std::max<std::int64_t>(settings->data.batch / std::max(mesh.data, 1), 1) : 8;
  std::int64_t parts = std::min<std::int64_t>(streams, 64);
  while (streams % parts != 0) --parts;
  const std::string accumulation = fmt::format("training.gradient_accumulation_steps={}", parts);
  const std::string narrow = "precision.compute_dtype=bfloat16";
  const std::string zero1 = "parallel.zero_stage=1", zero2 = "parallel.zero_stage=2";
  const std::vector<std::vector<std::string>> tried = {
      {"memory.recompute_granularity=selective"},
      {recompute},
      {reversible},
      {chunk},
      {feed_forward},
      {loss},
      {accumulation},
      {narrow},
      {zero1},
      {zero2},
      {zero2, narrow},
      {reversible, chunk},
      {recompute, feed_forward, loss},
      {reversible, feed_forward, loss},
      {recompute, feed_forward, loss, accumulation},
      {reversible, feed_forward, loss, accumulation},
      {reversible, feed_forward, loss, accumulation, zero2},
      {reversible, feed_forward, loss, accumulation, zero2, narrow},
  };
  const auto try_keys = [&](const std::vector<std::string>& keys) {
    return MemorySaving{keys, plan_step(*reconfigure(keys), mesh, ids, plan.processor)};
  };
  const std::int64_t whole =
      settings->memory.bptt_chunk_length.value_or(reads_streams ? settings->data.segment : 0);
  std::vector<MemorySaving> result;
  for (std::vector<std::string> keys : tried) {
    if (settings->memory.recompute_num_layers != 1 && std::ranges::count(keys, recompute) > 0)
      keys.push_back(each_layer);
    const bool in_chunks = std::erase(keys, chunk) > 0;
    try {
      if (!in_chunks) {
        result.push_back(try_keys(keys));
        continue;
      }
      std::optional<MemorySaving> found;
      for (std::int64_t length = longest_chunk_below(whole);
           length >= ChunkedPlans::shortest_chunk && !(found && found->plan.bytes() <= memory);
           length /= 2) {
        std::vector<std::string> all = keys;
        std::ranges::copy(bptt_chunk_keys(*settings, length), std::back_inserter(all));
        found = try_keys(all);
      }
      if (found) result.push_back(std::move(*found));
    } catch (const ConfigurationError&) {
    }
  }
  // Without keys that save nothing more.
  std::erase_if(result, [all = result](const MemorySaving& saving) {
    return std::ranges::any_of(all, [&](const MemorySaving& other) {
      const auto is_in_saving = [&](const std::string& key) {
        return std::ranges::count(saving.keys, key) > 0;
      };
      return other.keys.size() < saving.keys.size() && other.plan.bytes() <= saving.plan.bytes() &&
             std::ranges::all_of(other.keys, is_in_saving);
    });
  });
  const auto order = [&](const MemorySaving& saving) {
    return std::pair(std::ranges::find(saving.keys, reversible) != saving.keys.end(),
                     saving.keys.size());
  };
  std::ranges::stable_sort(result, std::less<>(), order);
  return result;
}

}  // namespace longspan
