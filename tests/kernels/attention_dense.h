// Reference attention: a dense row of scores in double, pair by pair.
#pragma once

#include "tests/kernels/attention_reference.h"

namespace longspan::testing {

// The value rounded to the dtype.
inline double stored(double value, DType dtype) {
  return with_floating_type(dtype, [value](auto tag) {
    using T = typename decltype(tag)::type;
    return static_cast<double>(static_cast<Accumulator<T>>(T(static_cast<Accumulator<T>>(value))));
  });
}

class DenseAttention {
 public:
  DenseAttention(const AttentionGradient& g, AttentionResult& result)
      : a_(g.forward),
        r_(result),
        query_(numbers(a_.query)),
        key_(numbers(a_.key)),
        value_(numbers(a_.value)),
        dout_(numbers(g.dout)) {
    batch_ = a_.query.shape()[0];
    time_ = a_.query.shape()[1];
    heads_ = a_.query.shape()[2];
    dim_ = a_.query.shape()[3];
    keys_ = a_.key.shape()[1];
    value_dim_ = a_.value.shape()[3];
    scale_ = a_.scale != 0 ? a_.scale : 1 / std::sqrt(static_cast<double>(dim_));
    if (a_.relative) {
      position_key_ = numbers(a_.relative->position_key);
      content_bias_ = numbers(a_.relative->content_bias);
      position_bias_ = numbers(a_.relative->position_bias);
    }
    if (a_.shaw && a_.shaw->key_table.defined()) key_table_ = numbers(a_.shaw->key_table);
    if (a_.shaw && a_.shaw->value_table.defined()) value_table_ = numbers(a_.shaw->value_table);
    if (a_.slopes.defined()) slopes_ = numbers(a_.slopes);
    if (a_.distance_bias.defined()) distance_bias_ = numbers(a_.distance_bias);
    if (a_.span) span_ = numbers(a_.span->span);
    r_.out.assign(dout_.size(), 0);
    r_.log_sum_exp.assign(static_cast<std::size_t>(batch_ * heads_ * time_), 0);
    r_.dquery.assign(query_.size(), 0);
    r_.dkey.assign(key_.size(), 0);
    r_.dvalue.assign(value_.size(), 0);
    r_.dposition_key.assign(position_key_.size(), 0.5);
    r_.dcontent_bias.assign(content_bias_.size(), 0.5);
    r_.dposition_bias.assign(position_bias_.size(), 0.5);
    r_.dkey_table.assign(key_table_.size(), 0.5);
    r_.dvalue_table.assign(value_table_.size(), 0.5);
    r_.dspan.assign(span_.size(), 0.5);
    r_.ddistance_bias.assign(distance_bias_.size(), 0.5);
  }

  void run() {
    for (std::int64_t b = 0; b < batch_; ++b)
      for (std::int64_t h = 0; h < heads_; ++h)
        for (std::int64_t i = 0; i < time_; ++i) row(b, h, i);
  }

 private:
  std::size_t at(std::int64_t b,
                 std::int64_t length,
                 std::int64_t i,
                 std::int64_t h,
                 std::int64_t width) const {
    return static_cast<std::size_t>(((b * length + i) * heads_ + h) * width);
  }
  // The offset of the key head that head h reads.
  std::size_t key_at(std::int64_t b, std::int64_t j, std::int64_t h, std::int64_t width) const {
    const std::int64_t key_heads = a_.key.shape()[2];
    return static_cast<std::size_t>(((b * keys_ + j) * key_heads + h / (heads_ / key_heads)) *
                                    width);
  }
  std::int64_t distance_of(std::int64_t i, std::int64_t j) const {
    return a_.mask.query_begin + i - a_.mask.key_begin - j;
  }
  std::int32_t integer(const Tensor& tensor, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return tensor.data<std::int32_t>()[(b * heads_ + h) * tensor.shape()[2] + i];
  }

  bool visible(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const AttentionMask& mask = a_.mask;
    const std::int64_t k = mask.key_begin + j;
    if (!mask.rules.of(mask.head_begin + h).allows(mask.query_begin + i, k)) return false;
    if (mask.key_padding.defined() && mask.key_padding.data<std::uint8_t>()[b * keys_ + j] != 0)
      return false;
    if (mask.key_length.defined() && k >= mask.key_length.data<std::int64_t>()[b]) return false;
    if (mask.max_lookback.defined() &&
        distance_of(i, j) > mask.max_lookback.data<std::int64_t>()[b * time_ + i])
      return false;
    if (!mask.sorted) return true;
    const std::int32_t query = integer(mask.sorted->query_position, b, h, i);
    const std::int32_t key = integer(mask.sorted->key_position, b, h, j);
    if (query < 0 || key < 0 || (mask.sorted->causal && key > query)) return false;
    return !mask.sorted->query_bucket.defined() ||
           integer(mask.sorted->query_bucket, b, h, i) == integer(mask.sorted->key_bucket, b, h, j);
  }

  bool same_token(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (!a_.hash || !a_.hash->self_score) return false;
    if (!a_.mask.sorted) return distance_of(i, j) == 0;
    return integer(a_.mask.sorted->query_position, b, h, i) ==
           integer(a_.mask.sorted->key_position, b, h, j);
  }

  // The number of rounds in which query and key share chunks.
  std::int64_t meetings(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const LshTerm& hash = *a_.hash;
    const std::int64_t rounds = hash.chunk.shape()[2];
    const std::int64_t positions = hash.chunk.shape()[3];
    std::int64_t count = 0;
    for (std::int64_t r = 0; r < rounds; ++r) {
      const auto of = [&](const Tensor& tensor, std::int64_t position) {
        return tensor.data<std::int32_t>()[((b * heads_ + h) * rounds + r) * positions + position];
      };
      const std::int64_t p = integer(a_.mask.sorted->query_position, b, h, i);
      const std::int64_t k = integer(a_.mask.sorted->key_position, b, h, j);
      bool met = false;
      for (std::int64_t step = -hash.look_back; step <= hash.look_ahead; ++step) {
        std::int64_t chunk = of(hash.chunk, p) + step;
        if (hash.chunks > 0) chunk = (chunk + hash.chunks) % hash.chunks;
        met |= chunk == of(hash.chunk, k);
      }
      if (hash.bucket.defined()) met &= of(hash.bucket, p) == of(hash.bucket, k);
      count += met;
    }
    return count;
  }

  std::size_t position(std::int64_t h, std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>((distance_of(i, j) * heads_ + h) * dim_);
  }
  std::size_t table_row(const Numbers& table,
                        std::int64_t width,
                        std::int64_t i,
                        std::int64_t j) const {
    const std::int64_t most = static_cast<std::int64_t>(table.size()) / width / 2;
    return static_cast<std::size_t>((std::clamp(-distance_of(i, j), -most, most) + most) * width);
  }
  std::size_t bias_place(std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::int64_t distances = a_.distance_bias.shape()[1], most = distances / 2;
    return static_cast<std::size_t>(h * distances + most +
                                    std::clamp(-distance_of(i, j), -most, most));
  }
  double dropout_factor(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (!a_.dropout) return 1;
    const auto& d = *a_.dropout;
    const std::int64_t time = d.time_total > 0 ? d.time_total : time_;
    const std::int64_t keys = d.keys_total > 0 ? d.keys_total : keys_;
    // Row i of head r * heads + h of a view is position i fold + r of head h.
    const std::int64_t heads = heads_ / d.fold, r = h / heads;
    const std::int64_t head = (d.batch_begin + b) * d.heads_total + d.head_begin + h % heads;
    const std::int64_t index =
        (head * time + d.time_begin + i * d.fold + r) * keys + d.keys_begin + j * d.fold + r;
    return d.random.uniform_at(static_cast<std::uint64_t>(index)) >= d.rate ? 1 / (1 - d.rate) : 0;
  }

  // The scaled product of a query and a key.
  double product(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::size_t q = at(b, time_, i, h, dim_);
    const std::size_t k = key_at(b, j, h, dim_);
    const auto bias = static_cast<std::size_t>(h * dim_);
    double sum = 0;
    for (std::size_t c = 0; c < static_cast<std::size_t>(dim_); ++c) {
      const double u = a_.relative ? content_bias_[bias + c] : 0;
      sum += (query_[q + c] + u) * key_[k + c];
      if (a_.relative)
        sum += (query_[q + c] + position_bias_[bias + c]) * position_key_[position(h, i, j) + c];
      if (!key_table_.empty())
        sum += (query_[q + c] + (a_.shaw->of_keys ? key_[k + c] : 0)) *
               key_table_[table_row(key_table_, dim_, i, j) + c];
    }
    return sum * scale_;
  }
  double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    double result = same_token(b, h, i, j) ? *a_.hash->self_score : product(b, h, i, j);
    if (a_.cap > 0) result = a_.cap * std::tanh(result / a_.cap);
    if (!slopes_.empty())
      result -=
          slopes_[static_cast<std::size_t>(h)] * std::abs(static_cast<double>(distance_of(i, j)));
    if (!distance_bias_.empty()) result += distance_bias_[bias_place(h, i, j)];
    if (a_.hash && a_.hash->chunk.defined()) {
      const double count = static_cast<double>(meetings(b, h, i, j)) + a_.hash->count_floor;
      if (count > 0) result -= std::log(count);
    }
    return result;
  }

  std::size_t span_index(std::int64_t b, std::int64_t h, std::int64_t i) const {
    const bool by_token = a_.span->span.shape().dimensions() == 3;
    return static_cast<std::size_t>(by_token ? (b * time_ + i) * heads_ + h : h);
  }
  // R + z - x.
  double inside(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const double x = static_cast<double>(distance_of(i, j) - a_.span->first);
    return a_.span->ramp + span_[span_index(b, h, i)] - x;
  }
  double soft(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return a_.span ? std::clamp(inside(b, h, i, j) / a_.span->ramp, 0.0, 1.0) : 1;
  }
  // Whether the pair contributes to the gradient of z. Both ends count, as in the derivative of
  // clamp.
  bool is_on_ramp(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (!a_.span) return false;
    const double by = inside(b, h, i, j);
    return by >= 0 && by <= a_.span->ramp;
  }
  double value_row(std::int64_t i, std::int64_t j, std::size_t c) const {
    return value_table_.empty() ? 0 : value_table_[table_row(value_table_, value_dim_, i, j) + c];
  }

  void row(std::int64_t b, std::int64_t h, std::int64_t i) {
    const auto keys = static_cast<std::size_t>(keys_);
    const auto value_dim = static_cast<std::size_t>(value_dim_);
    const double floor = a_.span ? a_.span->floor : 0;
    Numbers scores(keys, -std::numeric_limits<double>::infinity());
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < keys; ++j) {
      const auto key = static_cast<std::int64_t>(j);
      const bool has_part = floor > 0 || soft(b, h, i, key) > 0;
      if (visible(b, h, i, key) && has_part) scores[j] = score(b, h, i, key);
      most = std::max(most, scores[j]);
    }
    auto& log_sum_exp = r_.log_sum_exp[static_cast<std::size_t>((b * heads_ + h) * time_ + i)];
    log_sum_exp = most;
    if (std::isinf(most)) return;
    double total = 0;
    for (std::size_t j = 0; j < keys; ++j)
      total += (soft(b, h, i, static_cast<std::int64_t>(j)) + floor) * std::exp(scores[j] - most);
    log_sum_exp = most + std::log(total);
    Numbers dprobability(keys);
    const std::size_t o = at(b, time_, i, h, value_dim_);
    double delta = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      const auto key = static_cast<std::int64_t>(j);
      const double p = soft(b, h, i, key) * std::exp(scores[j] - log_sum_exp);
      const double keep = dropout_factor(b, h, i, key);
      const std::size_t v = key_at(b, key, h, value_dim_);
      for (std::size_t c = 0; c < value_dim; ++c) {
        const double value = value_[v + c] + value_row(i, key, c);
        r_.out[o + c] += p * keep * value;
        r_.dvalue[v + c] += p * keep * dout_[o + c];
        if (!value_table_.empty())
          r_.dvalue_table[table_row(value_table_, value_dim_, i, key) + c] +=
              p * keep * dout_[o + c];
        dprobability[j] += keep * dout_[o + c] * value;
      }
    }
    // The backward pass reads `out` as it is stored.
    for (std::size_t c = 0; c < value_dim; ++c)
      delta += stored(r_.out[o + c], a_.out.dtype()) * dout_[o + c];
    for (std::size_t j = 0; j < keys; ++j) {
      if (std::isinf(scores[j])) continue;
      const auto key = static_cast<std::int64_t>(j);
      const double m = soft(b, h, i, key);
      const double power = std::exp(scores[j] - log_sum_exp);
      if (is_on_ramp(b, h, i, key))
        r_.dspan[span_index(b, h, i)] += power * (dprobability[j] - delta) / a_.span->ramp;
      const double change = power * (m * dprobability[j] - (m + floor) * delta);
      if (!distance_bias_.empty()) r_.ddistance_bias[bias_place(h, i, key)] += change;
      const double part = a_.cap > 0 ? std::tanh(product(b, h, i, key) / a_.cap) : 0;
      const double slope = 1 - part * part;
      if (!same_token(b, h, i, key)) score_gradient(b, h, i, key, slope * scale_ * change);
    }
  }

  void score_gradient(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, double d) {
    const std::size_t q = at(b, time_, i, h, dim_);
    const std::size_t k = key_at(b, j, h, dim_);
    const auto bias = static_cast<std::size_t>(h * dim_);
    for (std::size_t c = 0; c < static_cast<std::size_t>(dim_); ++c) {
      r_.dquery[q + c] += d * key_[k + c];
      r_.dkey[k + c] += d * query_[q + c];
      if (!key_table_.empty()) {
        const std::size_t r = table_row(key_table_, dim_, i, j) + c;
        r_.dquery[q + c] += d * key_table_[r];
        r_.dkey_table[r] += d * query_[q + c];
        if (a_.shaw->of_keys) {
          r_.dkey[k + c] += d * key_table_[r];
          r_.dkey_table[r] += d * key_[k + c];
        }
      }
      if (!a_.relative) continue;
      const std::size_t r = position(h, i, j) + c;
      r_.dkey[k + c] += d * content_bias_[bias + c];
      r_.dquery[q + c] += d * position_key_[r];
      r_.dposition_key[r] += d * (query_[q + c] + position_bias_[bias + c]);
      r_.dcontent_bias[bias + c] += d * key_[k + c];
      r_.dposition_bias[bias + c] += d * position_key_[r];
    }
  }

  const Attention& a_;
  AttentionResult& r_;
  Numbers query_, key_, value_, dout_, position_key_, content_bias_, position_bias_;
  Numbers key_table_, value_table_, slopes_, distance_bias_, span_;
  std::int64_t batch_, time_, heads_, dim_, keys_, value_dim_;
  double scale_;
};

inline AttentionResult dense_attention(const AttentionGradient& g) {
  AttentionResult result;
  DenseAttention(g, result).run();
  return result;
}

}  // namespace longspan::testing
