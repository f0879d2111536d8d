// How the backward pass is divided among threads and its partial sums added up.
#include "framework/kernels/cpu/attention_backward.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "framework/kernels/cpu/attention_check.h"

namespace longspan {
namespace tile_attention {
namespace {

// An item is one head, batch row and run of key blocks, in that order: the items of a head lie side
// by side, so a thread's sums for a head are few. With more than one run a pair of head and batch
// row has one dquery a run, and they are added in their order.
struct Division {
  std::int64_t runs = 1;
  std::int64_t items = 0;
  std::int64_t threads = 1;
  std::vector<std::int64_t> begin;  // [threads + 1]: the items of each thread

  Division(const BandPlan& plan, std::int64_t pairs, std::int64_t most) {
    const std::int64_t blocks = (plan.key_tiles() + block_tiles - 1) / block_tiles;
    // As few runs as keep the threads busy: each costs another dquery.
    const auto idle = [&](std::int64_t count) {
      const std::int64_t rounds = (pairs * count + most - 1) / most;
      return static_cast<double>(rounds * most) / static_cast<double>(pairs * count);
    };
    const std::int64_t limit = std::min<std::int64_t>(blocks, 16);
    while (runs < limit && pairs > 0 && idle(runs) > 1.2) ++runs;
    items = pairs * runs;
    threads = std::clamp<std::int64_t>(items, 1, most);
    divide(plan, pairs, blocks);
  }

  Interval key_blocks(const BandPlan& plan, std::int64_t run) const {
    const std::int64_t blocks = (plan.key_tiles() + block_tiles - 1) / block_tiles;
    return {blocks * run / runs, blocks * (run + 1) / runs};
  }

 private:
  // Contiguous shares of equal cost, in visited tiles.
  void divide(const BandPlan& plan, std::int64_t pairs, std::int64_t blocks) {
    std::vector<double> cost(static_cast<std::size_t>(runs), 1.0);
    double total = 0;
    for (std::int64_t run = 0; run < runs; ++run) {
      const Interval range = key_blocks(plan, run);
      for (std::int64_t block = range.begin; block < range.end && block < blocks; ++block) {
        const Interval queries = plan.query_tiles_of(
            {block * block_tiles * tile, std::min((block + 1) * block_tiles * tile, plan.keys)});
        cost[static_cast<std::size_t>(run)] += static_cast<double>(queries.end - queries.begin);
      }
      total += cost[static_cast<std::size_t>(run)] * static_cast<double>(pairs);
    }
    double before = 0;
    std::int64_t thread = 0;
    begin.assign(static_cast<std::size_t>(threads) + 1, items);
    begin[0] = 0;
    for (std::int64_t item = 0; item < items; ++item) {
      const double middle = before + cost[static_cast<std::size_t>(item % runs)] / 2;
      const auto owner = static_cast<std::int64_t>(middle / total * static_cast<double>(threads));
      while (thread < std::min(owner, threads - 1))
        begin[static_cast<std::size_t>(++thread)] = item;
      before += cost[static_cast<std::size_t>(item % runs)];
    }
  }
};

template <typename In>
struct Run {
  using T = Accumulator<In>;

  explicit Run(const AttentionGradient& gradient)
      : g(gradient),
        p(gradient.forward),
        biases(p),
        division(p.plan, p.batch * p.heads, useful_threads(p)) {
    scratch_bytes = Backward<In>(p, biases, g, Carver(nullptr)).bytes();
    const Device& device = g.dquery.device();
    scratch =
        Tensor::empty({division.threads, scratch_bytes}, DType::u8, device, MemoryTag::workspace);
    const std::int64_t rows = division.runs > 1 ? division.items : division.threads;
    dquery = Tensor::empty(
        {rows, p.time, p.dim_padded}, DTypeOf<T>::value, device, MemoryTag::workspace);
    if (!p.call.relative) return;
    slot_elements = RelativeSums<T>::elements(p.keys, p.dim_padded);
    slot_elements = padded<T>(slot_elements);
    // One slot for each head that a thread works on.
    for (std::int64_t t = 0; t < division.threads; ++t) {
      first_slot.push_back(slots);
      const Interval heads = heads_of(t);
      slots += heads.end - heads.begin;
    }
    slots_memory =
        Tensor::zeros({slots, slot_elements}, DTypeOf<T>::value, device, MemoryTag::workspace);
  }

  Interval heads_of(std::int64_t thread) const {
    const std::int64_t begin = division.begin[static_cast<std::size_t>(thread)];
    const std::int64_t end = division.begin[static_cast<std::size_t>(thread) + 1];
    const std::int64_t per_head = p.batch * division.runs;
    return begin == end ? Interval{0, 0} : Interval{begin / per_head, (end - 1) / per_head + 1};
  }
  RelativeSums<T> slot(std::int64_t index) const {
    return {slots_memory.template data<T>() + index * slot_elements, p.keys, p.dim_padded};
  }

  void work(std::int64_t thread) {
    Backward<In> backward(p, biases, g, Carver(scratch.bytes() + thread * scratch_bytes));
    const Interval heads = p.call.relative ? heads_of(thread) : Interval{0, 0};
    for (std::int64_t item = division.begin[static_cast<std::size_t>(thread)];
         item < division.begin[static_cast<std::size_t>(thread) + 1];
         ++item) {
      const std::int64_t pair = item / division.runs;
      const std::int64_t h = pair / p.batch;
      const std::int64_t b = pair % p.batch;
      T* sums =
          dquery.template data<T>() + (division.runs > 1 ? item : thread) * p.time * p.dim_padded;
      std::fill_n(sums, p.time * p.dim_padded, T{0});
      RelativeSums<T> relative;
      if (p.call.relative)
        relative = slot(first_slot[static_cast<std::size_t>(thread)] + h - heads.begin);
      backward.run(b, h, division.key_blocks(p.plan, item % division.runs), sums, relative);
      if (division.runs == 1) write_dquery(sums, b, h, 0, p.time);
    }
  }

  void write_dquery(
      const T* sums, std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
    In* data = g.dquery.template data<In>();
    const auto target = p.rows(data, b, p.time, h, p.dim, 0);
    for (std::int64_t i = begin; i < end; ++i)
      write_row(sums + i * p.dim_padded, p.dim, p.scale, target.row(i));
  }

  // Adds the runs of query tile `index` of all pairs in their order.
  void gather_dquery(std::int64_t index) {
    const std::int64_t tiles = p.plan.query_tiles();
    const std::int64_t pair = index / tiles;
    const Interval rows = p.plan.query_tile(index % tiles);
    const std::int64_t run_size = p.time * p.dim_padded;
    T* first = dquery.template data<T>() + pair * division.runs * run_size;
    for (std::int64_t run = 1; run < division.runs; ++run)
      for (std::int64_t e = rows.begin * p.dim_padded; e < rows.end * p.dim_padded; ++e)
        first[e] += first[run * run_size + e];
    write_dquery(first, pair % p.batch, pair / p.batch, rows.begin, rows.end);
  }

  // Adds the slots of a head, in the order of the threads, for a range of distances.
  void gather_position_key(std::int64_t h, std::int64_t begin, std::int64_t end) {
    T* data = g.dposition_key.template data<T>();
    for_slots(h, [&](const RelativeSums<T>& sums) {
      for (std::int64_t d = begin; d < end; ++d) {
        const T* from = sums.position_key + (d + RelativeSums<T>::margin) * p.dim_padded;
        T* to = data + (d * p.heads + h) * p.dim;
        for (std::int64_t c = 0; c < p.dim; ++c) to[c] += p.scale * from[c];
      }
    });
  }

  void gather_biases(std::int64_t h) {
    T* dcontent = g.dcontent_bias.template data<T>() + h * p.dim;
    T* dposition = g.dposition_bias.template data<T>() + h * p.dim;
    const In* position_key = p.call.relative->position_key.template data<In>();
    std::vector<T> by_distance(static_cast<std::size_t>(p.keys), T{0});
    for_slots(h, [&](const RelativeSums<T>& sums) {
      for (std::int64_t c = 0; c < p.dim; ++c) dcontent[c] += p.scale * sums.content_bias[c];
      for (std::int64_t d = 0; d < p.keys; ++d)
        by_distance[static_cast<std::size_t>(d)] += sums.score[d + RelativeSums<T>::margin];
    });
    std::vector<T> sum(static_cast<std::size_t>(p.dim), T{0});
    for (std::int64_t d = 0; d < p.keys; ++d)
      for (std::int64_t c = 0; c < p.dim; ++c)
        sum[static_cast<std::size_t>(c)] +=
            by_distance[static_cast<std::size_t>(d)] *
            static_cast<T>(position_key[(d * p.heads + h) * p.dim + c]);
    for (std::int64_t c = 0; c < p.dim; ++c)
      dposition[c] += p.scale * sum[static_cast<std::size_t>(c)];
  }

  template <typename F>
  void for_slots(std::int64_t h, const F& f) {
    for (std::int64_t t = 0; t < division.threads; ++t) {
      const Interval heads = heads_of(t);
      if (heads.begin <= h && h < heads.end)
        f(slot(first_slot[static_cast<std::size_t>(t)] + h - heads.begin));
    }
  }

  const AttentionGradient& g;
  Problem<In> p;
  QueryBiases<In> biases;
  Division division;
  std::int64_t scratch_bytes = 0;
  std::int64_t slot_elements = 0;
  std::int64_t slots = 0;
  std::vector<std::int64_t> first_slot;
  Tensor scratch;
  Tensor dquery;
  Tensor slots_memory;
};

template <typename In>
void run_backward(const AttentionGradient& g) {
  Run<In> run(g);
  const auto& p = run.p;
  const std::int64_t query_tiles =
      run.division.runs > 1 ? p.batch * p.heads * p.plan.query_tiles() : 0;
  const std::int64_t pieces = (p.keys + tile - 1) / tile;
#pragma omp parallel num_threads(static_cast <int>(run.division.threads))
  {
    // The system may give fewer threads than were asked for (OMP_DYNAMIC, OMP_THREAD_LIMIT).
    for (std::int64_t share = omp_get_thread_num(); share < run.division.threads;
         share += omp_get_num_threads())
      run.work(share);
#pragma omp barrier
#pragma omp for nowait
    for (std::int64_t i = 0; i < query_tiles; ++i) run.gather_dquery(i);
    if (p.call.relative) {
#pragma omp for nowait
      for (std::int64_t i = 0; i < p.heads * pieces; ++i) {
        const Interval distances = p.plan.key_tile(i % pieces);
        run.gather_position_key(i / pieces, distances.begin, distances.end);
      }
#pragma omp for
      for (std::int64_t h = 0; h < p.heads; ++h) run.gather_biases(h);
    }
  }
}

}  // namespace
}  // namespace tile_attention

void attention_backward(Cpu, const AttentionGradient& g) {
  tile_attention::check(g);
  with_floating_type(g.forward.query.dtype(), [&](auto tag) {
    tile_attention::run_backward<typename decltype(tag)::type>(g);
  });
}

}  // namespace longspan
