#include "framework/nn/attention/lsh_attention.h"

#include <algorithm>
#include <cmath>

#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"

namespace longspan {
namespace {

// Chunks before its own that a query attends to.
constexpr std::int64_t look_back = 1;

bool fully_attended(const LshOptions& options, std::int64_t time) {
  const std::int64_t chunks = (time + options.chunk - 1) / options.chunk;
  return time < 2 * options.chunk || chunks < 1 + look_back + options.look_ahead;
}

// For a row that attends only to itself, the log-sum-exp is its self score. The backward pass
// recomputes the probability from it, with the error of its last digit: 1e-3 at -1e4.
constexpr double lowest_narrow_self_score = -1e4;

std::string validate_lsh(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  if (setting.memory) return "model.attention.layer_types: lsh does not support model.mem_len";
  if (setting.examples)
    return "model.attention.layer_types: lsh does not support the padded batches of this family";
  if (const std::string problem = validate_head_sharding("lsh", setting.heads, setting.mesh);
      !problem.empty())
    return problem;
  return validate_self_score(options.lsh, setting.compute);
}

}  // namespace

void declare(OptionTable& table, LshOptions& options) {
  table.add("model.attention.lsh.chunk_length",
            options.chunk,
            "chunk length in tokens; a token attends to its own chunk and the previous one",
            at_least(1),
            only_with(layer_type({"lsh"})));
  table.add("model.attention.lsh.num_buckets",
            options.buckets,
            "number of hash buckets per round, an even number; none: about 2 x sequence length / "
            "model.attention.lsh.chunk_length",
            between(2, 1 << 20),
            multiple_of(2),
            only_with(layer_type({"lsh"})));
  table.add("model.attention.lsh.num_hashes",
            options.rounds,
            "number of hash rounds",
            between(1, 64),
            only_with(layer_type({"lsh"})));
  table.add("model.attention.lsh.num_eval_hashes",
            options.evaluation_rounds,
            "number of hash rounds in evaluation; none: model.attention.lsh.num_hashes",
            between(1, 64),
            only_with(layer_type({"lsh"})));
  table.add("model.attention.lsh.num_chunks_after",
            options.look_ahead,
            "number of chunks after its own that a token attends to",
            between(0, 16),
            only_with(layer_type({"lsh"})));
  table.add("model.attention.lsh.same_bucket_only",
            options.same_bucket,
            "attention to keys of the token's own bucket only; false: to all keys of the chunks",
            only_with(layer_type({"lsh"})));
  table.add("model.attention.lsh.deduplicate",
            options.count_once,
            "deduplication of keys that several hash rounds find",
            only_with(layer_type({"lsh"})));
  table.add("model.attention.lsh.scale",
            options.scale,
            "factor of the dot product of a query with a key of unit norm; none: 1 / "
            "sqrt(model.head_dim)",
            more_than(0.0),
            only_with(layer_type({"lsh"})));
  table.add("model.attention.lsh.self_attention_score",
            options.self_score,
            "score of a token with itself, low enough to count only if it has no other key; none: "
            "-1e5 with float64, otherwise -1e3, at least -1e4",
            at_least(-1e5),
            less_than(0.0),
            only_with(layer_type({"lsh"})));
}

BucketCount bucket_count(const LshOptions& options, std::int64_t time) {
  if (options.buckets) return factored(*options.buckets);
  const double wanted =
      2 * std::ceil(static_cast<double>(time) / static_cast<double>(options.chunk));
  const auto even = [](double number) {
    return std::max<std::int64_t>(2 * std::llround(number / 2), 2);
  };
  if (wanted < 64) return {.first = even(wanted)};
  const std::int64_t first = even(std::sqrt(wanted));
  return {.first = first, .second = even(wanted / static_cast<double>(first))};
}

Tensor hash_rotations(const Random& random,
                      const ShardRange& heads,
                      std::int64_t dim,
                      std::int64_t rounds,
                      std::int64_t columns,
                      DType dtype,
                      const Device& device) {
  const Tensor rotations = Tensor::empty({heads.count, dim, rounds, columns}, dtype, device.host());
  dispatch_on_host(rotations.device(), [&] {
    with_floating_type(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* const elements = rotations.data<T>();
#pragma omp parallel for collapse(2) if (rotations.elements() > 16384)
      for (std::int64_t h = 0; h < heads.count; ++h)
        for (std::int64_t r = 0; r < rounds; ++r) {
          const Random place = random.child(static_cast<std::uint64_t>(heads.begin + h))
                                   .child(static_cast<std::uint64_t>(r));
          for (std::int64_t d = 0; d < dim; ++d)
            for (std::int64_t c = 0; c < columns; ++c)
              elements[((h * dim + d) * rounds + r) * columns + c] =
                  static_cast<T>(static_cast<Accumulator<T>>(
                      place.normal_at(static_cast<std::uint64_t>(d * columns + c))));
        }
    });
  });
  return copy_async(rotations, device, MemoryTag::activations);
}

std::string validate_self_score(const LshOptions& options, DType compute) {
  const double found = options.self_score.value_or(0);
  if (compute == DType::f64 || found >= lowest_narrow_self_score) return "";
  return fmt::format(
      "model.attention.lsh.self_attention_score: expected at least {} with 32-bit sums, found {}",
      lowest_narrow_self_score,
      found);
}

LshAttention::LshAttention(const Scope& scope, const Options& options)
    : options_(options.lsh), dropout_(options.dropout) {
  throw_if_error(validate_head_sharding("lsh", options.heads, scope.parameters().mesh().shape));
  throw_if_error(validate_self_score(options_, scope.parameters().compute_dtype()));
}

Tensor LshAttention::buckets(const ProjectedQKV& input,
                             const AttentionContext& context,
                             const ForwardContext& pass,
                             const BucketCount& count,
                             std::int64_t rounds) const {
  const Tensor& x = input.query.value();
  const Shape& shape = x.shape();
  const Tensor buckets =
      Tensor::empty({shape[0], shape[2], rounds, shape[1]}, DType::i32, x.device());
  BucketHash hash = {.x = x,
                     .rotations = {},
                     .count = count,
                     .padding = context.mask.key_padding,
                     .length = context.mask.key_length,
                     .buckets = buckets};
  if (count.total() > 1)
    hash.rotations = hash_rotations(pass.random.child("rotations"),
                                    input.heads,
                                    shape[3],
                                    rounds,
                                    count.columns(),
                                    accumulator_of(x.dtype()),
                                    x.device());
  on(x.device(), [&](auto backend) { hash_buckets(backend, hash); });
  return buckets;
}

Variable LshAttention::operator()(const ProjectedQKV& input,
                                  const AttentionContext& context,
                                  const ForwardContext& pass) const {
  const bool causal = is_causal(context.mask, "lsh", "it sorts the tokens of one segment");
  const ProjectedQKV all = gather_sequence(input);
  const std::int64_t time = all.query.shape()[1];
  const bool whole = fully_attended(options_, time);
  const BucketCount count = whole ? BucketCount{} : bucket_count(options_, time);
  const std::int64_t trained = options_.rounds;
  const std::int64_t rounds = whole           ? 1
                              : pass.training ? trained
                                              : options_.evaluation_rounds.value_or(trained);
  const Tensor chosen =
      pass.child("buckets").decide([&] { return buckets(all, context, pass, count, rounds); });
  const bool wide = all.query.value().dtype() == DType::f64;
  const Variable mixed =
      lsh_attention(all.query,
                    all.value,
                    chosen,
                    {.buckets = count.total(),
                     .chunk = whole ? time : options_.chunk,
                     .look_back = look_back,
                     .look_ahead = options_.look_ahead,
                     .causal = causal,
                     .same_bucket = options_.same_bucket,
                     .count_once = options_.count_once,
                     .self_score = options_.self_score.value_or(wide ? -1e5 : -1e3),
                     .scale = options_.scale.value_or(0)},
                    probability_dropout(dropout_, all, context.mask, pass));
  return local_shard(mixed, input);
}

AttentionKind lsh_kind() {
  return {.name = "lsh",
          .sees = "keys that hashing puts in the same or a nearby chunk",
          .alone = "its queries and keys are one projection",
          .turns = true,
          .own_weights = true,
          .problem = validate_lsh,
          .make = [](const Scope& attention,
                     const AttentionOptions& options,
                     const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
            return std::make_unique<LshAttention>(
                attention,
                LshAttention::Options{
                    .lsh = options.lsh, .heads = setting.heads, .dropout = setting.dropout});
          }};
}

}  // namespace longspan
