// Gated recurrences: a block computes a head, token by token, with the state in global memory. Each
// thread holds columns of the state, and in the backward pass rows of it as well.
#include "framework/kernels/attention/gated_recurrence.h"
#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace recurrence_cuda {
namespace {

constexpr std::int64_t tile = 16;  // tokens whose states the backward pass keeps
static_assert(recurrence_segment % tile == 0);

// Extents and pointers of a call; undefined tensors are null.
template <typename T>
struct View {
  using A = Accumulator<T>;
  std::int64_t batch, time, heads, keys, values;
  const T *query, *key, *value, *a, *b;
  const A *log_decay, *beta, *initial;
  const std::int64_t* position;
  T* out;
  A *final_state, *checkpoints;
  A scale;
  bool channel_gates;

  explicit View(const GatedRecurrence& call)
      : batch(call.query.shape()[0]),
        time(call.query.shape()[1]),
        heads(call.query.shape()[2]),
        keys(call.query.shape()[3]),
        values(call.value.shape()[3]),
        query(call.query.data<T>()),
        key(call.key.data<T>()),
        value(call.value.data<T>()),
        a(elements_or_null<T>(call.a)),
        b(elements_or_null<T>(call.b)),
        log_decay(elements_or_null<A>(call.log_decay)),
        beta(elements_or_null<A>(call.beta)),
        initial(elements_or_null<A>(call.initial)),
        position(elements_or_null<std::int64_t>(call.document_position)),
        out(elements_or_null<T>(call.out)),
        final_state(elements_or_null<A>(call.final_state)),
        checkpoints(elements_or_null<A>(call.checkpoints)),
        scale(static_cast<A>(call.scale)),
        channel_gates(call.has_channel_gates()) {}

  LONGSPAN_HOST_DEVICE std::int64_t state() const { return keys * values; }
  LONGSPAN_HOST_DEVICE bool corrects() const { return beta != nullptr || a != nullptr; }
  // Index of a token of the block's head in [batch, time, heads].
  __device__ std::int64_t place(std::int64_t t) const {
    return (blockIdx.x / heads * time + t) * heads + blockIdx.x % heads;
  }
  __device__ bool starts(std::int64_t t) const {
    return position != nullptr && position[blockIdx.x / heads * time + t] == 0;
  }
  __device__ A* checkpoint(std::int64_t segment) const {
    return checkpoints + (segment * batch * heads + blockIdx.x) * state();
  }
};

template <typename T>
struct Gradients {
  using A = Accumulator<T>;
  const T* dout;
  const A* dfinal;
  T *dquery, *dkey, *dvalue, *da, *db;
  A *dlog_decay, *dbeta, *dinitial;

  explicit Gradients(const GatedRecurrenceGradient& call)
      : dout(call.dout.data<T>()),
        dfinal(elements_or_null<A>(call.dfinal)),
        dquery(elements_or_null<T>(call.dquery)),
        dkey(elements_or_null<T>(call.dkey)),
        dvalue(elements_or_null<T>(call.dvalue)),
        da(elements_or_null<T>(call.da)),
        db(elements_or_null<T>(call.db)),
        dlog_decay(elements_or_null<A>(call.dlog_decay)),
        dbeta(elements_or_null<A>(call.dbeta)),
        dinitial(elements_or_null<A>(call.dinitial)) {}
};

template <typename F>
__device__ void each(std::int64_t count, const F& f) {
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) f(i);
}

// A token in shared memory.
template <typename A>
struct Token {
  A *query, *key, *decay, *written, *b_term, *a_term;  // [keys], as on the CPU
  A *value, *dout, *correction, *dcorrection;          // [values]
  A *dstep, *ddecay;                                   // [keys]: terms of sums

  __device__ Token(std::int64_t keys, std::int64_t values) {
    A* next = shared_memory<A>();
    for (A** const row : {&query, &key, &decay, &written, &b_term, &a_term, &dstep, &ddecay}) {
      *row = next;
      next += keys;
    }
    for (A** const row : {&value, &dout, &correction, &dcorrection}) {
      *row = next;
      next += values;
    }
  }
};
template <typename A>
std::size_t shared_bytes(std::int64_t keys, std::int64_t values) {
  return static_cast<std::size_t>(8 * keys + 4 * values) * sizeof(A);
}

// Ends with a barrier.
template <typename T, typename A>
__device__ void load(const View<T>& v, std::int64_t t, const Token<A>& s) {
  __syncthreads();
  const std::int64_t at = v.place(t);
  each(v.keys, [&](std::int64_t c) {
    const std::int64_t i = at * v.keys + c;
    s.query[c] = v.scale * wide(v.query[i]);
    s.key[c] = wide(v.key[i]);
    s.decay[c] = v.log_decay == nullptr ? A{1} : fast_exp(v.log_decay[v.channel_gates ? i : at]);
    s.written[c] = s.key[c];
    if (v.beta != nullptr) {
      s.written[c] = v.beta[at] * s.key[c];
      s.b_term[c] = -s.written[c];
      s.a_term[c] = s.decay[c] * s.key[c];
    } else if (v.a != nullptr) {
      s.b_term[c] = wide(v.b[i]);
      s.a_term[c] = wide(v.a[i]);
    }
  });
  each(v.values, [&](std::int64_t c) { s.value[c] = wide(v.value[at * v.values + c]); });
  __syncthreads();
}

// Computes column c of the state after a token, `to` from `from` (null: zero). Returns y.
template <typename T, typename A>
__device__ A advance(const View<T>& v, const Token<A>& s, const A* from, A* to, std::int64_t c) {
  A correction = 0, y = 0;
  const bool corrects = v.corrects() && from != nullptr;
  if (corrects)
    for (std::int64_t k = 0; k < v.keys; ++k) correction += s.a_term[k] * from[k * v.values + c];
  for (std::int64_t k = 0; k < v.keys; ++k) {
    A state = s.written[k] * s.value[c];
    if (from != nullptr) state += s.decay[k] * from[k * v.values + c];
    if (corrects) state += s.b_term[k] * correction;
    to[k * v.values + c] = state;
    y += s.query[k] * state;
  }
  return y;
}

// scratch: a state for each block.
template <typename T>
__global__ void run_forward(View<T> v, Accumulator<T>* scratch) {
  using A = Accumulator<T>;
  const Token<A> s(v.keys, v.values);
  A* const state = scratch + blockIdx.x * v.state();
  const A* const initial = v.initial == nullptr ? nullptr : v.initial + blockIdx.x * v.state();
  // Every thread reads and writes only its columns.
  each(v.values, [&](std::int64_t c) {
    for (std::int64_t k = 0; k < v.keys; ++k)
      state[k * v.values + c] = initial == nullptr ? A{0} : initial[k * v.values + c];
  });
  for (std::int64_t t = 0; t < v.time; ++t) {
    load(v, t, s);
    const bool starts = v.starts(t);
    each(v.values, [&](std::int64_t c) {
      if (t % recurrence_segment == 0 && v.checkpoints != nullptr) {
        A* const to = v.checkpoint(t / recurrence_segment);
        for (std::int64_t k = 0; k < v.keys; ++k) to[k * v.values + c] = state[k * v.values + c];
      }
      put(v.out[v.place(t) * v.values + c], advance(v, s, starts ? nullptr : state, state, c));
    });
  }
  if (v.final_state == nullptr) return;
  A* const last = v.final_state + blockIdx.x * v.state();
  each(v.values, [&](std::int64_t c) {
    for (std::int64_t k = 0; k < v.keys; ++k) last[k * v.values + c] = state[k * v.values + c];
  });
}

// Number of states of a block's scratch in the backward pass: the gradient, those before each tile
// of a segment, and those of a tile.
constexpr std::int64_t backward_states = 1 + recurrence_segment / tile + tile + 1;

// Computes the gradients of a token. `before`: the state before it, null at the start of a
// document; `gradient`: that of the state after the token, replaced by that of the state before it.
template <typename T, typename A>
__device__ void differentiate(const View<T>& v,
                              const Gradients<T>& g,
                              std::int64_t t,
                              const Token<A>& s,
                              const A* before,
                              const A* after,
                              A* gradient) {
  const std::int64_t at = v.place(t);
  const bool corrects = v.corrects() && before != nullptr;
  each(v.values, [&](std::int64_t c) {
    s.dout[c] = wide(g.dout[at * v.values + c]);
    A correction = 0, dvalue = 0, dcorrection = 0;
    for (std::int64_t k = 0; k < v.keys; ++k) {
      A& d = gradient[k * v.values + c];
      d += s.query[k] * s.dout[c];
      dvalue += s.written[k] * d;
      if (corrects) {
        correction += s.a_term[k] * before[k * v.values + c];
        dcorrection += s.b_term[k] * d;
      }
    }
    s.correction[c] = correction;
    s.dcorrection[c] = dcorrection;
    if (g.dvalue != nullptr) put(g.dvalue[at * v.values + c], dvalue);
  });
  __syncthreads();
  each(v.keys, [&](std::int64_t k) {
    A dquery = 0, dwritten = 0, db_term = 0, da_term = 0, ddecay = 0;
    for (std::int64_t c = 0; c < v.values; ++c) {
      const std::int64_t i = k * v.values + c;
      dquery += after[i] * s.dout[c];
      dwritten += gradient[i] * s.value[c];
      if (before != nullptr) ddecay += gradient[i] * before[i];
      if (corrects) {
        db_term += gradient[i] * s.correction[c];
        da_term += before[i] * s.dcorrection[c];
      }
    }
    ddecay *= s.decay[k];
    const std::int64_t i = at * v.keys + k;
    A dkey = dwritten;
    if (v.beta != nullptr) {
      const A outer = dwritten - db_term;
      s.dstep[k] = outer * s.key[k];
      dkey = v.beta[at] * outer + s.decay[k] * da_term;
      ddecay += da_term * s.a_term[k];
    }
    s.ddecay[k] = ddecay;
    if (g.dquery != nullptr) put(g.dquery[i], v.scale * dquery);
    if (g.dkey != nullptr) put(g.dkey[i], dkey);
    if (g.da != nullptr) put(g.da[i], da_term);
    if (g.db != nullptr) put(g.db[i], db_term);
    if (g.dlog_decay != nullptr && v.channel_gates) g.dlog_decay[i] = ddecay;
  });
  __syncthreads();
  if (threadIdx.x == 0) {
    A dstep = 0, ddecay = 0;
    for (std::int64_t k = 0; k < v.keys; ++k) {
      if (v.beta != nullptr) dstep += s.dstep[k];
      ddecay += s.ddecay[k];
    }
    if (g.dbeta != nullptr) g.dbeta[at] = dstep;
    if (g.dlog_decay != nullptr && !v.channel_gates) g.dlog_decay[at] = ddecay;
  }
  each(v.values, [&](std::int64_t c) {
    for (std::int64_t k = 0; k < v.keys; ++k) {
      A& d = gradient[k * v.values + c];
      d = before == nullptr ? A{0} : s.decay[k] * d;
      if (corrects) d += s.a_term[k] * s.dcorrection[c];
    }
  });
}

// scratch: backward_states for each block.
template <typename T>
__global__ void run_backward(View<T> v, Gradients<T> g, Accumulator<T>* scratch) {
  using A = Accumulator<T>;
  const Token<A> s(v.keys, v.values);
  A* const gradient = scratch + blockIdx.x * backward_states * v.state();
  A* const tiles = gradient + v.state();
  A* const states = tiles + recurrence_segment / tile * v.state();
  const A* const dfinal = g.dfinal == nullptr ? nullptr : g.dfinal + blockIdx.x * v.state();
  const auto copy = [&](const A* from, A* to) {
    each(v.values, [&](std::int64_t c) {
      for (std::int64_t k = 0; k < v.keys; ++k)
        to[k * v.values + c] = from == nullptr ? A{0} : from[k * v.values + c];
    });
  };
  // Runs tokens [begin, begin + count), with the state before token i at `states + i`.
  const auto compute_states = [&](std::int64_t begin, std::int64_t count, const A* first) {
    copy(first, states);
    for (std::int64_t i = 0; i < count; ++i) {
      load(v, begin + i, s);
      const A* const from = v.starts(begin + i) ? nullptr : states + i * v.state();
      each(v.values, [&](std::int64_t c) { advance(v, s, from, states + (i + 1) * v.state(), c); });
    }
  };
  copy(dfinal, gradient);
  const std::int64_t segments = (v.time + recurrence_segment - 1) / recurrence_segment;
  for (std::int64_t segment = segments - 1; segment >= 0; --segment) {
    const std::int64_t begin = segment * recurrence_segment;
    const std::int64_t end =
        v.time < begin + recurrence_segment ? v.time : begin + recurrence_segment;
    const std::int64_t count = (end - begin + tile - 1) / tile;
    copy(v.checkpoint(segment), tiles);
    for (std::int64_t i = 0; i + 1 < count; ++i) {
      compute_states(begin + i * tile, tile, tiles + i * v.state());
      copy(states + tile * v.state(), tiles + (i + 1) * v.state());
    }
    for (std::int64_t i = count - 1; i >= 0; --i) {
      const std::int64_t first = begin + i * tile;
      const std::int64_t tokens = end - first < tile ? end - first : tile;
      compute_states(first, tokens, tiles + i * v.state());
      for (std::int64_t t = tokens - 1; t >= 0; --t) {
        load(v, first + t, s);
        const A* const before = v.starts(first + t) ? nullptr : states + t * v.state();
        differentiate(v, g, first + t, s, before, states + (t + 1) * v.state(), gradient);
      }
    }
  }
  if (g.dinitial != nullptr) copy(gradient, g.dinitial + blockIdx.x * v.state());
}

template <typename T>
Grid grid_of(const View<T>& v) {
  using A = Accumulator<T>;
  int threads = warp_size;
  while (threads < 256 && threads < v.values) threads *= 2;
  return {.blocks = v.batch * v.heads,
          .threads = threads,
          .shared_bytes = shared_bytes<A>(v.keys, v.values)};
}

template <typename T>
Tensor scratch_of(const GatedRecurrence& call, std::int64_t states) {
  const Shape& key = call.key.shape();
  return Tensor::empty({states * key[0] * key[2], key[3], call.value.shape()[3]},
                       accumulator_of(call.query.dtype()),
                       call.query.device(),
                       MemoryTag::workspace);
}

}  // namespace
}  // namespace recurrence_cuda

void gated_recurrence(Cuda cuda, const GatedRecurrence& call) {
  using namespace recurrence_cuda;
  check_forward(call);
  with_floating_type(call.query.dtype(), [&]<typename T>(TypeTag<T>) {
    const View<T> v(call);
    const Tensor scratch = scratch_of<T>(call, 1);
    launch(cuda, grid_of(v), run_forward<T>, v, scratch.data<Accumulator<T>>());
  });
}

void gated_recurrence_backward(Cuda cuda, const GatedRecurrenceGradient& call) {
  using namespace recurrence_cuda;
  check(call);
  with_floating_type(call.forward.query.dtype(), [&]<typename T>(TypeTag<T>) {
    const View<T> v(call.forward);
    const Gradients<T> g(call);
    const Tensor scratch = scratch_of<T>(call.forward, backward_states);
    launch(cuda, grid_of(v), run_backward<T>, v, g, scratch.data<Accumulator<T>>());
  });
}

}  // namespace longspan
