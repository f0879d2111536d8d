#include "framework/kernels/attention/check.h"

#include <algorithm>
#include <bit>

#include "framework/core/device.h"
#include "framework/kernels/attention/external_scores.h"
#include "framework/kernels/attention/pair_count.h"
#include "framework/kernels/attention/tile_plan.h"

namespace longspan {
namespace tile_attention {
namespace {

void expect(const Tensor& tensor, std::string_view name, const Shape& shape, DType dtype) {
  require(tensor.defined(), "attention: {} is missing", name);
  require(tensor.shape() == shape && tensor.dtype() == dtype,
          "attention: expected {} {} {}, found {} {}",
          name,
          name_of(dtype),
          shape,
          name_of(tensor.dtype()),
          tensor.shape());
}

// Accepts two dtypes: that of the inputs or the accumulator dtype.
void expect_either(const Tensor& tensor, std::string_view name, const Shape& shape, DType dtype) {
  require(tensor.defined(), "attention: {} is missing", name);
  expect(tensor, name, shape, tensor.dtype() == accumulator_of(dtype) ? tensor.dtype() : dtype);
}

// Whether the host can read the contents of a call's tensors.
bool is_readable(const Attention& a) {
  const DeviceState& device = a.query.device().state();
  return !device.is_meta() && !device.on_gpu();
}

void check_reach(const Attention& a) {
  const Tensor& reach = a.mask.max_lookback;
  const std::int64_t batch = a.query.shape()[0], time = a.query.shape()[1];
  expect(reach, "reach", {batch, time}, DType::i64);
  require(!a.mask.sorted, "attention: sorted sequences do not support max_lookback");
  if (!is_readable(a)) return;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t* const of_row = reach.data<std::int64_t>() + b * time;
    for (std::int64_t i = 0; i < time; ++i) {
      const bool follows = i == 0 || of_row[i] <= of_row[i - 1] + 1;
      require(of_row[i] >= 0 && follows,
              "attention: lookback of query {} of batch row {}: expected 0 or more and at most one "
              "more than before, found {}{}",
              i,
              b,
              of_row[i],
              i == 0 ? "" : fmt::format(" after {}", of_row[i - 1]));
    }
  }
}

void check_mask(const Attention& a) {
  const AttentionMask& mask = a.mask;
  const Shape& q = a.query.shape();
  const std::int64_t keys = a.key.shape()[1];
  require(mask.rules.one_for_all() ||
              (mask.head_begin >= 0 && mask.head_begin + q[2] <= mask.rules.size()),
          "attention: expected a mask for each of the heads {} to {}, found {}",
          mask.head_begin,
          mask.head_begin + q[2] - 1,
          mask.rules.size());
  if (mask.key_padding.defined()) expect(mask.key_padding, "key_padding", {q[0], keys}, DType::u8);
  if (mask.key_length.defined()) expect(mask.key_length, "key_length", {q[0]}, DType::i64);
  if (mask.max_lookback.defined()) check_reach(a);
  if (!mask.sorted) return;
  const SortedSequence& sorted = *mask.sorted;
  const Shape of_queries{q[0], q[2], q[1]};
  const Shape of_keys{q[0], q[2], keys};
  expect(sorted.query_position, "query_position", of_queries, DType::i32);
  expect(sorted.key_position, "key_position", of_keys, DType::i32);
  if (sorted.query_bucket.defined() || sorted.key_bucket.defined()) {
    expect(sorted.query_bucket, "query_bucket", of_queries, DType::i32);
    expect(sorted.key_bucket, "key_bucket", of_keys, DType::i32);
  }
}

void check_relative(const Attention& a) {
  const Shape& q = a.query.shape();
  const RelativeTerm& relative = *a.relative;
  require(relative.position_key.defined() && relative.position_key.shape().dimensions() == 3,
          "attention: expected position_key [distances, heads, dim]");
  const std::int64_t distances = relative.position_key.shape()[0];
  expect(relative.position_key, "position_key", {distances, q[2], q[3]}, a.query.dtype());
  expect_either(relative.content_bias, "content_bias", {q[2], q[3]}, a.query.dtype());
  expect_either(relative.position_bias, "position_bias", {q[2], q[3]}, a.query.dtype());
  for (const auto& plan : plans_of(a))
    require(
        plan->pairs() == 0 || (plan->nearest() >= 0 && plan->max_distance() < distances),
        "attention: the relative term has keys for distances 0 to {}, but the mask allows {} to {}",
        distances - 1,
        plan->nearest(),
        plan->max_distance());
}

void check_table(const Tensor& table, std::string_view name, std::int64_t width, DType dtype) {
  if (!table.defined()) return;
  const std::int64_t rows = table.shape().dimensions() == 2 ? table.shape()[0] : 0;
  require(rows % 2 == 1,
          "attention: expected {} of an odd number of rows of {} features, found {}",
          name,
          width,
          table.shape());
  expect(table, name, {rows, width}, dtype);
}

void check_distance_bias(const Attention& a) {
  const Tensor& bias = a.distance_bias;
  const std::int64_t heads = a.query.shape()[2];
  const std::int64_t distances = bias.shape().dimensions() == 2 ? bias.shape()[1] : 0;
  require(distances % 2 == 1,
          "attention: expected distance_bias of an odd number of distances for {} heads, found {}",
          heads,
          bias.shape());
  expect(bias, "distance_bias", {heads, distances}, accumulator_of(a.query.dtype()));
}

void check_span(const Attention& a) {
  const Shape& q = a.query.shape();
  const Tensor& span = a.span->span;
  require(
      a.span->ramp > 0 && (a.span->floor == 0 || a.span->floor >= 1e-30),
      "attention: expected a span ramp above 0 and a floor of 0 or at least 1e-30, found {} and {}",
      a.span->ramp,
      a.span->floor);
  require(span.defined(), "attention: span is missing");
  const Shape wanted = span.shape().dimensions() == 3 ? Shape{q[0], q[1], q[2]} : Shape{q[2]};
  expect(span, "span", wanted, accumulator_of(a.query.dtype()));
}

void check_hash(const Attention& a) {
  const LshTerm& hash = *a.hash;
  const Shape& q = a.query.shape();
  if (!hash.chunk.defined()) {
    require(!hash.bucket.defined(), "attention: hash buckets require chunks");
    return;
  }
  require(a.mask.sorted.has_value(), "attention: hash chunks require a sorted sequence");
  require(hash.chunk.shape().dimensions() == 4,
          "attention: expected chunk [batch, heads, rounds, positions], found {}",
          hash.chunk.shape());
  const Shape wanted{q[0], q[2], hash.chunk.shape()[2], hash.chunk.shape()[3]};
  expect(hash.chunk, "chunk", wanted, DType::i32);
  if (hash.bucket.defined()) expect(hash.bucket, "bucket", wanted, DType::i32);
  require(hash.look_back >= 0 && hash.look_ahead >= 0 && hash.chunks >= 0 && hash.count_floor >= 0,
          "attention: expected look_back, look_ahead, chunks and count_floor of at least 0, found "
          "{}, {}, {} and {}",
          hash.look_back,
          hash.look_ahead,
          hash.chunks,
          hash.count_floor);
}

// Checks which terms can be combined.
void check_terms(const Attention& a) {
  require(!a.relative || !a.shaw,
          "attention: the relative term of Transformer-XL and Shaw's tables cannot be combined");
  const bool biased = a.distance_bias.defined();
  require(!biased || (!a.relative && !a.shaw && !a.slopes.defined()),
          "attention: a relative position bias cannot be combined with another relative term");
  const bool by_distance = a.relative || a.shaw || a.slopes.defined() || a.span || biased;
  require(!by_distance || !a.hash,
          "attention: hash attention cannot be combined with another score term");
  require(!by_distance || !a.mask.sorted || !a.mask.sorted->causal,
          "attention: sorted causal sequences do not support relative score terms");
  if (a.relative) check_relative(a);
  if (a.shaw) {
    check_table(a.shaw->key_table, "key_table", a.query.shape()[3], a.query.dtype());
    check_table(a.shaw->value_table, "value_table", a.value.shape()[3], a.query.dtype());
    require(!a.shaw->of_keys || a.shaw->key_table.defined(),
            "attention: products of keys with relative positions require key_table");
  }
  if (a.slopes.defined())
    expect(a.slopes, "slopes", {a.query.shape()[2]}, accumulator_of(a.query.dtype()));
  if (biased) check_distance_bias(a);
  if (a.span) check_span(a);
  if (a.hash) check_hash(a);
}

PlanShape plan_shape(const Attention& a) {
  return {.query_begin = a.mask.query_begin,
          .time = a.query.shape()[1],
          .key_begin = a.mask.key_begin,
          .keys = a.key.shape()[1]};
}

// Whether `head`, not the call's first, has the rules of the previous head.
bool same_rules_as_before(const AttentionMask& mask, std::int64_t head) {
  const std::int64_t of_model = mask.head_begin + head;
  return mask.rules.one_for_all() || mask.rules.of(of_model) == mask.rules.of(of_model - 1);
}

}  // namespace

std::vector<std::shared_ptr<const TilePlan>> plans_of(const Attention& a) {
  const AttentionMask& mask = a.mask;
  const PlanShape shape = plan_shape(a);
  std::vector<std::shared_ptr<const TilePlan>> plans;
  for (std::int64_t h = 0; h < a.query.shape()[2]; ++h)
    plans.push_back(
        h > 0 && same_rules_as_before(mask, h)
            ? plans.back()
            : tile_plan(a.query.device().state(), mask.rules.of(mask.head_begin + h), shape));
  return plans;
}

bool counts_only(const Attention& a) {
  DeviceState& device = a.query.device().state();
  return device.is_meta() && device.get_or_create<FlopsOnlyMode>().wanted;
}

void check(const Attention& a) {
  require(a.query.defined() && a.key.defined() && a.value.defined(),
          "attention: query, key and value are required");
  require(a.query.shape().dimensions() == 4 && a.key.shape().dimensions() == 4 &&
              a.value.shape().dimensions() == 4,
          "attention: expected query, key and value [batch, time, heads, dim], found {}, {} and {}",
          a.query.shape(),
          a.key.shape(),
          a.value.shape());
  const DType dtype = a.query.dtype();
  const Shape& q = a.query.shape();
  const std::int64_t keys = a.key.shape()[1];
  const std::int64_t value_dim = a.value.shape()[3];
  require(q[3] > 0 && value_dim > 0, "attention: expected heads of at least 1 feature");
  require(
      a.scale >= 0, "attention: expected a scale above 0, or 0 for the default, found {}", a.scale);
  require(a.cap >= 0 && (a.cap == 0 || !a.hash),
          "attention: expected a score cap of 0 or more, and 0 with hash attention, found {}{}",
          a.cap,
          a.hash ? " with a hash" : "");
  const std::int64_t key_heads = a.key.shape()[2];
  require(key_heads > 0 && q[2] % key_heads == 0,
          "attention: expected a multiple of {} key heads, found {} heads",
          key_heads,
          q[2]);
  expect(a.key, "key", {q[0], keys, key_heads, q[3]}, dtype);
  expect(a.value, "value", {q[0], keys, key_heads, value_dim}, dtype);
  expect(a.out, "out", {q[0], q[1], q[2], value_dim}, dtype);
  expect(a.log_sum_exp, "log_sum_exp", {q[0], q[2], q[1]}, accumulator_of(dtype));
  check_mask(a);
  check_terms(a);
  if (a.dropout) {
    require(a.dropout->rate >= 0 && a.dropout->rate < 1,
            "attention: expected a dropout rate of at least 0 and below 1, found {}",
            a.dropout->rate);
    const std::int64_t fold = a.dropout->fold;
    require(fold == 1 || (fold > 1 && a.query.shape()[2] % fold == 0 && a.dropout->time_total > 0 &&
                          a.dropout->keys_total > 0),
            "attention: expected a dropout fold that divides {} heads, with the folded lengths, "
            "found {}",
            a.query.shape()[2],
            fold);
  }
}

void check(const AttentionGradient& g) {
  const Attention& a = g.forward;
  check(a);
  const DType dtype = a.query.dtype();
  expect(g.dout, "dout", a.out.shape(), dtype);
  expect_either(g.dquery, "dquery", a.query.shape(), dtype);
  expect_either(g.dkey, "dkey", a.key.shape(), dtype);
  expect_either(g.dvalue, "dvalue", a.value.shape(), dtype);
  const DType sums = accumulator_of(dtype);
  if (a.relative) {
    expect(g.dposition_key, "dposition_key", a.relative->position_key.shape(), sums);
    expect(g.dcontent_bias, "dcontent_bias", a.relative->content_bias.shape(), sums);
    expect(g.dposition_bias, "dposition_bias", a.relative->position_bias.shape(), sums);
  }
  if (a.shaw && a.shaw->key_table.defined())
    expect(g.dkey_table, "dkey_table", a.shaw->key_table.shape(), sums);
  if (a.shaw && a.shaw->value_table.defined())
    expect(g.dvalue_table, "dvalue_table", a.shaw->value_table.shape(), sums);
  if (a.span) expect(g.dspan, "dspan", a.span->span.shape(), sums);
  if (a.distance_bias.defined())
    expect(g.ddistance_bias, "ddistance_bias", a.distance_bias.shape(), sums);
}

void check(const Attention& a, const ExternalScores& given) {
  if (!given.any()) return;
  require(!a.hash && !a.mask.sorted && a.cap == 0,
          "attention: given scores cannot be combined with a sorted sequence, hash attention or a "
          "score cap");
  const Shape& q = a.query.shape();
  const std::int64_t positions = a.mask.key_begin + a.key.shape()[1];
  const auto width = [](const Tensor& tensor) {
    return tensor.defined() && tensor.shape().dimensions() == 4 ? tensor.shape()[3] : 0;
  };
  if (given.row.defined()) {
    expect(given.row, "row of scores", {1, q[1], q[2], width(given.row)}, a.query.dtype());
    require(width(given.row) >= positions,
            "attention: expected at least {} positions in the rows of scores, found {}",
            positions,
            width(given.row));
  }
  if (!given.low.defined() && !given.high.defined()) return;
  const std::int64_t low = width(given.low), high = width(given.high);
  expect(given.low, "low factor of scores", {q[0], q[1], q[2], low}, a.query.dtype());
  expect(given.high, "high factor of scores", {q[0], q[1], q[2], high}, a.query.dtype());
  require(low * high >= positions,
          "attention: expected score factors for at least {} positions, found {} x {} = {}",
          positions,
          low,
          high,
          low * high);
}

void check(const ExternalScores& given, const ExternalScores& gradients, DType dtype) {
  const auto expect_like = [&](const Tensor& gradient, const char* name, const Tensor& of) {
    if (of.defined()) expect(gradient, name, of.shape(), accumulator_of(dtype));
  };
  expect_like(gradients.row, "gradient of the row of scores", given.row);
  expect_like(gradients.low, "gradient of the low factor of scores", given.low);
  expect_like(gradients.high, "gradient of the high factor of scores", given.high);
}

void check(const MergeAttention& m) {
  require(m.out.defined() && m.log_sum_exp.defined() && m.part.defined() &&
              m.part_log_sum_exp.defined(),
          "merge_attention: out, part and both log_sum_exp are required");
  const Shape& part = m.part.shape();
  const DType sums = accumulator_of(m.part.dtype());
  require(part.dimensions() == 4 && m.out.shape().dimensions() == 4 &&
              m.out.shape() == part.with(1, m.position.defined() ? m.out.shape()[1] : part[1]) &&
              (m.out.dtype() == m.part.dtype() || m.out.dtype() == sums),
          "merge_attention: expected out {} of {} or {}, found {} {}",
          part.to_string(),
          name_of(m.part.dtype()),
          name_of(sums),
          name_of(m.out.dtype()),
          m.out.shape().to_string());
  const auto expect = [&](const Tensor& t, std::int64_t rows, DType dtype, const char* name) {
    const Shape wanted{part[0], part[2], rows};
    require(t.shape() == wanted && t.dtype() == dtype,
            "merge_attention: expected {} {} {}, found {} {}",
            name,
            name_of(dtype),
            wanted.to_string(),
            name_of(t.dtype()),
            t.shape().to_string());
  };
  expect(m.log_sum_exp, m.out.shape()[1], sums, "log_sum_exp");
  expect(m.part_log_sum_exp, part[1], sums, "part_log_sum_exp");
  if (m.position.defined()) expect(m.position, part[1], DType::i32, "position");
}

namespace {

// Bits of a tile's 64 keys, from `key` on, that are not before `first`.
std::uint64_t bits_from(std::int64_t first, std::int64_t key) {
  const std::int64_t hidden = std::clamp(first - key, std::int64_t{0}, attention_tile);
  return hidden == attention_tile ? 0 : ~std::uint64_t{0} << hidden;
}

// Number of pairs that a plan and the padding and lookback of a batch row allow. reach: the
// lookback, [time].
std::int64_t pairs_within(const TilePlan& plan,
                          const std::vector<std::uint64_t>& seen,
                          const std::int64_t* reach) {
  const PlanShape& s = plan.shape();
  std::int64_t pairs = 0;
  for (std::int64_t q = 0; q < plan.query_tiles(); ++q)
    for (const TileRun& run : plan.key_runs(q)) {
      const std::int64_t query = q * attention_tile;
      const std::int64_t rows = std::min(attention_tile, s.time - query);
      const std::int64_t nearest = s.query_begin + query - reach[query] - s.key_begin;
      for (std::int64_t t = std::max<std::int64_t>(run.begin, nearest / attention_tile);
           t < run.end;
           ++t) {
        std::uint64_t bits[attention_tile];
        plan.tile_bits(s.query_begin + query,
                       rows,
                       s.key_begin + t * attention_tile,
                       std::min(attention_tile, s.keys - t * attention_tile),
                       bits);
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t first = s.query_begin + query + r - reach[query + r] - s.key_begin;
          pairs += std::popcount(bits[r] & seen[static_cast<std::size_t>(t)] &
                                 bits_from(first, t * attention_tile));
        }
      }
    }
  return pairs;
}

// Number of allowed pairs without a lookback.
std::int64_t pairs_of(const TilePlan& plan, const std::vector<std::uint64_t>& seen) {
  std::vector<std::int64_t> before(seen.size() + 1, 0);  // visible keys before each tile
  for (std::size_t t = 0; t < seen.size(); ++t) before[t + 1] = before[t] + std::popcount(seen[t]);
  const PlanShape& s = plan.shape();
  std::int64_t pairs = 0;
  for (std::int64_t q = 0; q < plan.query_tiles(); ++q)
    for (const TileRun& run : plan.key_runs(q)) {
      if (run.full != 0)
        pairs += attention_tile * (before[static_cast<std::size_t>(run.end)] -
                                   before[static_cast<std::size_t>(run.begin)]);
      for (std::int64_t t = run.begin; run.full == 0 && t < run.end; ++t) {
        std::uint64_t bits[attention_tile];
        const std::int64_t rows = std::min(attention_tile, s.time - q * attention_tile);
        plan.tile_bits(s.query_begin + q * attention_tile,
                       rows,
                       s.key_begin + t * attention_tile,
                       std::min(attention_tile, s.keys - t * attention_tile),
                       bits);
        for (std::int64_t r = 0; r < rows; ++r)
          pairs += std::popcount(bits[r] & seen[static_cast<std::size_t>(t)]);
      }
    }
  return pairs;
}

// The keys of a batch row that are not padding, one word for each tile.
std::vector<std::uint64_t> unpadded(const AttentionMask& mask, std::int64_t b, std::int64_t keys) {
  std::vector<std::uint64_t> seen(
      static_cast<std::size_t>((keys + attention_tile - 1) / attention_tile), 0);
  const std::int64_t length =
      mask.key_length.defined()
          ? std::min(keys, mask.key_length.data<std::int64_t>()[b] - mask.key_begin)
          : keys;
  for (std::int64_t j = 0; j < length; ++j)
    if (!mask.key_padding.defined() || mask.key_padding.data<std::uint8_t>()[b * keys + j] == 0)
      seen[static_cast<std::size_t>(j / attention_tile)] |= std::uint64_t{1} << j % attention_tile;
  return seen;
}

// Number of pairs of a batch row's heads, without building lists.
double counted_pairs(const Attention& a) {
  const AttentionMask& mask = a.mask;
  double pairs = 0, of_head = 0;
  for (std::int64_t h = 0; h < a.query.shape()[2]; ++h) {
    if (h == 0 || !same_rules_as_before(mask, h))
      of_head = static_cast<double>(
          count_pairs(a.query.device().state(), mask.rules.of(mask.head_begin + h), plan_shape(a)));
    pairs += of_head;
  }
  return pairs;
}

// Number of allowed pairs of all batch rows and heads.
double pairs_of(const Attention& a) {
  const std::int64_t batch = a.query.shape()[0];
  if (counts_only(a)) return static_cast<double>(batch) * counted_pairs(a);
  const auto plans = plans_of(a);
  const AttentionMask& mask = a.mask;
  const bool by_row =
      mask.key_padding.defined() || mask.key_length.defined() || mask.max_lookback.defined();
  double pairs = 0;
  if (!by_row || !is_readable(a)) {
    for (const auto& plan : plans) pairs += static_cast<double>(batch * plan->pairs());
    return pairs;
  }
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto seen = unpadded(mask, b, a.key.shape()[1]);
    const std::int64_t* const reach =
        mask.max_lookback.defined()
            ? mask.max_lookback.data<std::int64_t>() + b * a.query.shape()[1]
            : nullptr;
    std::int64_t of_plan = 0;
    for (std::size_t h = 0; h < plans.size(); ++h) {
      if (h == 0 || plans[h] != plans[h - 1])
        of_plan =
            reach != nullptr ? pairs_within(*plans[h], seen, reach) : pairs_of(*plans[h], seen);
      pairs += static_cast<double>(of_plan);
    }
  }
  return pairs;
}

// Operations of one pair: products with keys and additional score terms, and products with values.
struct PairFlops {
  double keys;
  double values;

  explicit PairFlops(const Attention& a)
      : keys(2 * static_cast<double>(a.query.shape()[3])),
        values(2 * static_cast<double>(a.value.shape()[3])) {
    if (a.relative || (a.shaw && a.shaw->key_table.defined()))
      keys *= a.shaw && a.shaw->of_keys ? 3 : 2;
    if (a.shaw && a.shaw->value_table.defined()) values *= 2;
  }
};

}  // namespace

void count_backward(DeviceState& device, const Attention& forward) {
  const PairFlops pair(forward);
  const double pairs = pairs_of(forward);
  device.count_flops(pairs * (3 * pair.keys + 2 * pair.values));
  device.get_or_create<RedundantFlops>().flops += pairs * pair.keys;
}

double external_score_flops(const Attention& a, const ExternalScores& given) {
  return given.low.defined() ? 2 * pairs_of(a) : 0;
}

void count_backward(DeviceState& device, const Attention& forward, const ExternalScores& given) {
  count_backward(device, forward);
  // Recomputed once, plus two products for the gradients of both factors.
  const double flops = external_score_flops(forward, given);
  device.count_flops(3 * flops);
  device.get_or_create<RedundantFlops>().flops += flops;
}

}  // namespace tile_attention

double attention_flops(const Attention& a) {
  const tile_attention::PairFlops pair(a);
  return tile_attention::pairs_of(a) * (pair.keys + pair.values);
}

double attention_backward_flops(const Attention& a) {
  const tile_attention::PairFlops pair(a);
  return tile_attention::pairs_of(a) * (3 * pair.keys + 2 * pair.values);
}

}  // namespace longspan
