#include "framework/autograd/attention.h"
#include "framework/autograd/dtypes.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/transpose.h"

namespace longspan {
namespace {

// A sequence of `time` positions as rows of `stride` positions, the last one padded.
struct Fold {
  std::int64_t stride;
  std::int64_t time;
  std::int64_t rows;

  Fold(std::int64_t of, std::int64_t positions)
      : stride(of), time(positions), rows((positions + of - 1) / of) {}
  bool even() const { return rows * stride == time; }

  // Reshapes x [batch, time, heads, dim] to [batch, rows, stride * heads, dim]. Shares its elements
  // unless padding is needed.
  Tensor folded(const Tensor& x) const {
    const Shape& shape = x.shape();
    const Shape view = {shape[0], rows, stride * shape[2], shape[3]};
    if (even()) return x.reshape(view);
    const std::int64_t width = shape[2] * shape[3];
    Tensor filled = Tensor::zeros({shape[0], rows * stride, width}, x.dtype(), x.device());
    on(x.device(), [&](auto backend) {
      copy_rows(backend, x.reshape({shape[0], time, width}), 0, filled, 0, time, false);
    });
    return filled.reshape(view);
  }
  Tensor unfolded(const Tensor& x, std::int64_t heads) const {
    const std::int64_t batch = x.shape()[0];
    const std::int64_t dim = x.shape()[3];
    if (even()) return x.reshape({batch, time, heads, dim});
    const std::int64_t width = heads * dim;
    Tensor cut = Tensor::empty({batch, time, width}, x.dtype(), x.device());
    on(x.device(), [&](auto backend) {
      copy_rows(backend, x.reshape({batch, rows * stride, width}), 0, cut, 0, time, false);
    });
    return cut.reshape({batch, time, heads, dim});
  }

  // Reshapes sums [batch, heads, time] to [batch, stride * heads, rows].
  Tensor folded_sums(const Tensor& sums) const {
    const std::int64_t batch = sums.shape()[0];
    const std::int64_t heads = sums.shape()[1];
    Tensor filled = sums;
    if (!even()) {
      filled = Tensor::zeros({batch * heads, rows * stride, 1}, sums.dtype(), sums.device());
      on(sums.device(), [&](auto backend) {
        copy_rows(backend, sums.reshape({batch * heads, time, 1}), 0, filled, 0, time, false);
      });
    }
    Tensor result = Tensor::empty({batch, stride, heads * rows}, sums.dtype(), sums.device());
    on(sums.device(), [&](auto backend) {
      transpose(backend, filled.reshape({batch, heads * rows, stride}), result);
    });
    return result.reshape({batch, stride * heads, rows});
  }
  Tensor unfolded_sums(const Tensor& sums, std::int64_t heads) const {
    const std::int64_t batch = sums.shape()[0];
    Tensor result = Tensor::empty({batch, heads * rows, stride}, sums.dtype(), sums.device());
    on(sums.device(), [&](auto backend) {
      transpose(backend, sums.reshape({batch, stride, heads * rows}), result);
    });
    if (even()) return result.reshape({batch, heads, time});
    Tensor cut = Tensor::empty({batch * heads, time, 1}, sums.dtype(), sums.device());
    on(sums.device(), [&](auto backend) {
      copy_rows(backend, result.reshape({batch * heads, rows * stride, 1}), 0, cut, 0, time, false);
    });
    return cut.reshape({batch, heads, time});
  }
};

// Returns the rules of the view's heads: head h at residue r is view head r * heads + h.
HeadMasks folded_rules(const HeadMasks& rules, std::int64_t heads, std::int64_t stride) {
  if (rules.one_for_all()) return rules;
  require(rules.size() == heads,
          "folded attention: expected rules for {} heads, found {}",
          heads,
          rules.size());
  std::vector<Mask> table;
  table.reserve(static_cast<std::size_t>(heads * stride));
  for (std::int64_t residue = 0; residue < stride; ++residue)
    for (std::int64_t head = 0; head < heads; ++head) table.push_back(rules.of(head));
  return HeadMasks(std::move(table));
}

// Arguments of forward and backward. The sums are over both sets of keys, by row.
struct FoldedCall {
  Tensor query;
  Tensor key;
  Tensor value;
  StridedKeys keys;
  std::optional<AttentionDropout> dropout;
  Tensor out = {};
  Tensor sums = {};

  std::int64_t heads() const { return query.shape()[2]; }
  Fold fold() const { return Fold(keys.stride, query.shape()[1]); }

  Attention near() const {
    Attention call;
    call.query = query;
    call.key = key;
    call.value = value;
    call.mask.rules = *keys.near;
    call.dropout = dropout;
    return call;
  }
  Attention columns() const {
    const Fold f = fold();
    Attention call;
    call.query = f.folded(query);
    call.key = f.folded(key);
    call.value = f.folded(value);
    call.mask.rules = folded_rules(keys.columns, heads(), keys.stride);
    if (dropout) {
      call.dropout = dropout;
      call.dropout->fold = keys.stride;
      call.dropout->time_total = f.time;
      call.dropout->keys_total = f.time;
    }
    return call;
  }
  void forward();
  void backward(BackwardContext& gradients) const;
};

void attend(Attention& call) {
  const Tensor& q = call.query;
  const Shape& shape = q.shape();
  call.out = Tensor::empty(shape.with(-1, call.value.shape()[3]), q.dtype(), q.device());
  call.log_sum_exp = empty_accumulator(q, {shape[0], shape[2], shape[1]});
  dispatch_or_meta(q.device(), [&](auto backend) { attention(backend, call); });
}

void FoldedCall::forward() {
  const Fold f = fold();
  Attention far = columns();
  attend(far);
  if (keys.near) {
    Attention close = near();
    attend(close);
    const MergeAttention merge = {.out = far.out,
                                  .log_sum_exp = far.log_sum_exp,
                                  .part = f.folded(close.out),
                                  .part_log_sum_exp = f.folded_sums(close.log_sum_exp)};
    on(query.device(), [&](auto backend) { merge_attention(backend, merge); });
  }
  out = f.unfolded(far.out, heads());
  sums = far.log_sum_exp;
}

void FoldedCall::backward(BackwardContext& gradients) const {
  const Fold f = fold();
  const Tensor dout = gradients.output();
  AttentionGradient far;
  far.forward = columns();
  far.dout = f.folded(dout);
  far.forward.out = f.folded(out);
  far.forward.log_sum_exp = sums;
  far.dquery = far.forward.query.empty_like();
  far.dkey = far.forward.key.empty_like();
  far.dvalue = far.forward.value.empty_like();
  dispatch_or_meta(dout.device(), [&](auto backend) { attention_backward(backend, far); });
  const Tensor results[] = {f.unfolded(far.dquery, heads()),
                            f.unfolded(far.dkey, key.shape()[2]),
                            f.unfolded(far.dvalue, key.shape()[2])};
  far = {};  // frees the padded copy
  if (keys.near) {
    AttentionGradient close;
    close.forward = near();
    close.dout = dout;
    close.dquery = results[0];
    close.dkey = results[1];
    close.dvalue = results[2];
    close.add = true;
    close.forward.out = out;
    close.forward.log_sum_exp = f.unfolded_sums(sums, heads());
    dispatch_or_meta(dout.device(), [&](auto backend) { attention_backward(backend, close); });
  }
  for (std::size_t input = 0; input < 3; ++input)
    if (gradients.needs_gradient(input)) gradients.set(input, results[input]);
}

}  // namespace

Variable strided_attention(const Variable& query,
                           const Variable& key,
                           const Variable& value,
                           const StridedKeys& keys,
                           const std::optional<AttentionDropout>& dropout) {
  require(
      keys.stride > 0, "folded attention: expected a stride of at least 1, found {}", keys.stride);
  require(query.shape()[1] == key.shape()[1],
          "folded attention: expected as many keys as queries, found {} queries and {} keys",
          query.shape()[1],
          key.shape()[1]);
  FoldedCall call = {.query = query.value(),
                     .key = key.value(),
                     .value = value.value(),
                     .keys = keys,
                     .dropout = dropout && dropout->rate > 0 ? dropout : std::nullopt};
  call.forward();
  Tensor out = call.out;
  return record(std::move(out),
                {query, key, value},
                [call = std::move(call)](BackwardContext& gradients) { call.backward(gradients); });
}

}  // namespace longspan
