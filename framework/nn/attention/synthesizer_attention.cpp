#include "framework/nn/attention/synthesizer_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/autograd/sequence_products.h"
#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/core/quote.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/attention_op.h"
#include "framework/nn/attention/softmax_attention.h"

namespace longspan {
namespace {

const std::string dot_product = "dot_product";
const std::vector<std::string> all_scores = {
    "dense", "random", "factorized_dense", "factorized_random", dot_product};

// Names of parameters select the random numbers of initial weights, so they keep this spelling.
std::string parameter_name(std::string variant) {
  if (variant.starts_with("factorized")) variant[7] = 's';
  return variant;
}

std::string validate_synthesizer(const AttentionOptions& options,
                                 const AttentionBuildOptions& setting) {
  const SynthesizerOptions& own = options.synthesizer;
  for (const std::string& name : own.scores) {
    if (std::ranges::count(all_scores, name) == 0)
      return fmt::format("model.attention.synthesizer.variants: expected one of {}, found {}",
                         fmt::join(all_scores, ", "),
                         quote(name));
    if (std::ranges::count(own.scores, name) > 1)
      return fmt::format("model.attention.synthesizer.variants: {} occurs more than once", name);
  }
  if (setting.memory)
    return "model.attention.layer_types: synthesizer does not support model.mem_len";
  if (own.longest && setting.segment > *own.longest)
    return fmt::format(
        "model.attention.synthesizer.max_length: expected at least {} (positions of "
        "a sequence), found {}",
        setting.segment,
        *own.longest);
  return "";
}

std::int64_t longest_of(const SynthesizerOptions& options, const AttentionBuildOptions& setting) {
  const std::int64_t longest = options.longest.value_or(setting.segment);
  if (longest == 0)
    throw ConfigurationError(
        "model.attention.layer_types: synthesizer requires a maximum sequence "
        "length; set model.attention.synthesizer.max_length");
  return longest;
}

// Returns the smaller factor of about `longest` products.
std::int64_t root_of(std::int64_t longest) {
  return std::max<std::int64_t>(1,
                                std::llround(std::ceil(std::sqrt(static_cast<double>(longest)))));
}

Variable by_head(const Variable& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  return reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}

// Concatenates features, [batch, time, heads, any].
Variable concat_columns(const Variable& a, const Variable& b) {
  if (!a.defined()) return b;
  const Shape& left = a.shape();
  const Shape& right = b.shape();
  const std::int64_t rows = left.rows();
  const Variable both =
      concat_time(reshape(a, {rows, left[3], 1}), reshape(b, {rows, right[3], 1}));
  return reshape(both, left.with(3, left[3] + right[3]));
}

Variable ones(const Shape& shape, const Variable& like) {
  const Tensor result = Tensor::empty(shape, like.value().dtype(), like.value().device());
  const Tensor one = Tensor::scalar(1, result.dtype(), result.device());
  on(result.device(), [&](auto backend) { fill(backend, 1, one, result); });
  return Variable(result);
}

// Returns x times an element [1, 1, 1].
Variable times(const Variable& x, const Variable& factor) {
  const Variable column = reshape(x, {1, x.shape().elements(), 1});
  return reshape(batched_matmul(column, factor), x.shape());
}

// Returns [count, count] with `factor` on the diagonal.
Tensor diagonal(std::int64_t count, double factor, DType dtype, const Device& device) {
  const Tensor here = Tensor::zeros({count, count}, dtype, device.host());
  dispatch_on_host(here.device(), [&] {
    with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
      for (std::int64_t i = 0; i < count; ++i)
        here.data<T>()[i * (count + 1)] = T(static_cast<Accumulator<T>>(factor));
    });
  });
  return copy_async(here, device, MemoryTag::activations);
}

// Returns the softmax of the elements, [1, 1, count].
Variable softmax(const Variable& elements) {
  const std::int64_t count = elements.shape().elements();
  const DType dtype = elements.value().dtype();
  const Device& device = elements.value().device();
  AttentionTerms terms;
  terms.scale = 1;
  const Variable values(diagonal(count, 1, dtype, device).reshape({1, count, 1, count}));
  const Variable shares = attention(ones({1, 1, 1, 1}, elements),
                                    reshape(elements, {1, count, 1, 1}),
                                    values,
                                    {.rules = masks::everything()},
                                    terms);
  return reshape(shares, {1, 1, count});
}

Ranges query_positions(const ProjectedQKV& input, std::int64_t time) {
  if (input.shares) return input.shares->query_rows()[input.shares->local_index()];
  return {{0, time}};
}

}  // namespace

void declare(OptionTable& table, SynthesizerOptions& options) {
  table.add("model.attention.synthesizer.variants",
            options.scores,
            fmt::format("variants of the scores, several of which form a learned mixture: {}",
                        fmt::join(all_scores, ", ")),
            not_empty(),
            affects_weights(),
            only_with(layer_type({"synthesizer"})));
  table.add("model.attention.synthesizer.dense_hidden_size",
            options.hidden,
            "hidden size per head of variant dense; none: model.head_dim",
            between(1, 1 << 16),
            affects_weights(),
            only_with(is("model.attention.synthesizer.variants", {"dense"})));
  table.add("model.attention.synthesizer.factorized_rank",
            options.rank,
            "rank of variant factorized_random",
            between(1, 1 << 16),
            affects_weights(),
            only_with(is("model.attention.synthesizer.variants", {"factorized_random"})));
  table.add("model.attention.synthesizer.max_length",
            options.longest,
            "maximum sequence length in positions; none: that of the training data",
            between(1, std::int64_t{1} << 20),
            affects_weights(),
            only_with(layer_type({"synthesizer"})));
}

SynthesizerAttention::SynthesizerAttention(const Scope& scope, const Options& options)
    : options_(options) {
  const auto& names = options.synthesizer.scores;
  for (const std::string& name : names)
    members_.push_back(member(scope.child(parameter_name(name)), name));
  if (names.size() > 1)
    mixture_ = scope.replicated_weight("mixture", {std::ssize(names)}, Initializer::constant(0));
}

bool SynthesizerAttention::projects_query_and_key() const {
  return std::ranges::count(options_.synthesizer.scores, dot_product) > 0;
}

SynthesizerAttention::Member SynthesizerAttention::member(const Scope& scope,
                                                          const std::string& name) const {
  const std::int64_t heads = options_.heads, longest = options_.longest;
  Member result = {.name = name};
  const auto add_map = [&](const std::string& map, std::int64_t features) {
    result.maps.emplace_back(
        scope.child(map),
        Linear::Options{
            .in = options_.width, .out = heads * features, .split = ParallelMode::columns});
  };
  const auto add_table = [&](const std::string& table, std::int64_t features) {
    result.tables.push_back(
        scope.weight(table, {longest, heads, features}, Initializer::normal(0.02), 1));
  };
  if (name == "dense") {
    const std::int64_t hidden = options_.synthesizer.hidden.value_or(options_.dim);
    add_map("hidden", hidden);
    result.tables.push_back(
        scope.weight("keys", {longest, heads, hidden}, Initializer::xavier(hidden, longest), 1));
    result.tables.push_back(
        scope.no_decay_weight("key_bias", {longest, heads, 1}, Initializer::constant(0), 1));
  } else if (name == "random") {
    add_table("scores", longest);
  } else if (name == "factorized_dense") {
    const std::int64_t factor = root_of(longest);
    add_map("low", factor);
    add_map("high", (longest + factor - 1) / factor);
  } else if (name == "factorized_random") {
    add_table("queries", options_.synthesizer.rank);
    add_table("keys", options_.synthesizer.rank);
  }
  return result;
}

// Returns rows of a table, equal for all batch rows: [1, positions, heads, features].
Variable SynthesizerAttention::rows_at(const Weight& table, const Ranges& positions) const {
  const Shape& shape = table->shape;
  const std::int64_t width = shape[1] * shape[2], count = total_count(positions);
  const Variable whole = reshape(table->variable, {1, shape[0], width});
  Variable rows;
  for (const Range& range : positions)
    if (range.count() > 0)
      rows = concat_time(rows, slice_sequence(whole, range.begin, range.count()));
  // A rank without positions still needs a gradient of the table: reductions follow the order of
  // gradient completion, which must be equal on all ranks.
  if (!rows.defined()) rows = slice_sequence(whole, 0, 0);
  return reshape(rows, {1, count, shape[1], shape[2]});
}

// Returns [batch, positions, heads, features].
Variable SynthesizerAttention::at_positions(const Weight& table,
                                            const Ranges& positions,
                                            const ProjectedQKV& input) const {
  const Variable rows = rows_at(table, positions);
  const Shape shape = rows.shape().with(0, input.value.shape()[0]);
  const std::int64_t width = shape[2] * shape[3];
  const Tensor& like = input.value.value();
  const Variable none(Tensor::zeros({shape[0], shape[1], width}, like.dtype(), like.device()));
  const Variable each = scale_and_add_positions(none, 1, reshape(rows, {shape[1], width}));
  return reshape(each, shape);
}

SynthesizerAttention::Features SynthesizerAttention::features(const Member& member,
                                                              const ProjectedQKV& input,
                                                              const ForwardContext& pass) const {
  if (member.name == dot_product) return {.query = input.query, .key = input.key};
  const std::int64_t heads = input.heads.count, time = input.input.shape()[1];
  const Ranges asking = query_positions(input, time), seen = key_positions(input);
  const auto mapped = [&](std::size_t map) {
    return by_head(member.maps[map](input.input, pass.of_all_rows()), heads);
  };
  const auto table = [&](std::size_t index, const Ranges& positions) {
    return at_positions(member.tables[index], positions, input);
  };
  if (member.name == "dense") {
    const Variable hidden = activate(Activation::relu, mapped(0));
    return {.query = concat_columns(hidden, ones(hidden.shape().with(3, 1), hidden)),
            .key = concat_columns(table(0, seen), table(1, seen))};
  }
  if (member.name == "factorized_random") return {.query = table(0, asking), .key = table(1, seen)};
  Features result;
  if (member.name == "random") {
    result.given.row = rows_at(member.tables[0], asking);
  } else {
    result.given.low = mapped(0);
    result.given.high = mapped(1);
  }
  return result;
}

// In a mixture, multiplies by the member's learned softmax weight, and dot products by their usual
// scale.
SynthesizerAttention::Features SynthesizerAttention::weighed(Features own,
                                                             std::size_t member,
                                                             const Variable& shares) const {
  const auto count = static_cast<std::int64_t>(members_.size());
  const auto index = static_cast<std::int64_t>(member);
  const Tensor& like = shares.value();
  const Tensor picked = diagonal(count, factor_of(members_[member]), like.dtype(), like.device());
  const Variable share =
      batched_matmul(shares, Variable(picked.slice(index, index + 1).reshape({1, count, 1})));
  for (Variable* weighs : {&own.query, &own.given.row, &own.given.high})
    if (weighs->defined()) *weighs = times(*weighs, share);
  return own;
}

double SynthesizerAttention::factor_of(const Member& member) const {
  return member.name == dot_product ? 1 / std::sqrt(static_cast<double>(options_.dim)) : 1;
}

SynthesizerAttention::Features SynthesizerAttention::all_features(
    const ProjectedQKV& input, const ForwardContext& pass) const {
  Variable shares;
  if (mixture_) shares = softmax(cast(mixture_->variable, input.value.value().dtype()));
  Features all;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Features own = features(members_[i], input, pass);
    if (mixture_) own = weighed(std::move(own), i, shares);
    if (own.query.defined())
      all = {.query = concat_columns(all.query, own.query),
             .key = concat_columns(all.key, own.key),
             .given = all.given};
    if (own.given.row.defined()) all.given.row = own.given.row;
    if (own.given.low.defined()) {
      all.given.low = own.given.low;
      all.given.high = own.given.high;
    }
  }
  if (all.query.defined()) return all;
  // No score type has products: uses products of zeros.
  const Tensor& like = input.value.value();
  const auto zeros = [&](std::int64_t rows) {
    const Shape shape = {like.shape()[0], rows, like.shape()[2], 1};
    return Variable(Tensor::zeros(shape, like.dtype(), like.device()));
  };
  all.query = zeros(input.input.shape()[1]);
  all.key = zeros(like.shape()[1]);
  return all;
}

Variable SynthesizerAttention::operator()(const ProjectedQKV& input,
                                          const AttentionContext& context,
                                          const ForwardContext& pass) const {
  if (context.mask.query_begin != 0 || context.mask.key_begin != 0)
    throw ConfigurationError("attention type synthesizer does not support mem_len > 0");
  const std::int64_t positions = input.shares ? input.shares->keys_total : input.value.shape()[1];
  if (positions > options_.longest)
    throw ConfigurationError(
        "expected at most model.attention.synthesizer.max_length = {} positions, found {}",
        options_.longest,
        positions);
  AttentionTerms terms;
  terms.scale = mixture_ ? 1 : factor_of(members_[0]);
  const Features all = all_features(input, pass);
  return attention_with_external_scores(
      all.query,
      all.key,
      input.value,
      context.mask,
      terms,
      all.given,
      probability_dropout(options_.dropout, input, context.mask, pass),
      input.shares);
}

AttentionKind synthesizer_kind() {
  return {
      .name = "synthesizer",
      .sees = "as full, by learned or predicted scores",
      .alone = "its scores may have no queries and keys",
      .own_weights = true,
      .longest = [](const AttentionOptions& options,
                    std::int64_t segment) { return options.synthesizer.longest.value_or(segment); },
      .problem = validate_synthesizer,
      .make = [](const Scope& attention,
                 const AttentionOptions& options,
                 const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
        throw_if_error(validate_synthesizer(options, setting));
        return std::make_unique<SynthesizerAttention>(
            attention,
            SynthesizerAttention::Options{.synthesizer = options.synthesizer,
                                          .longest = longest_of(options.synthesizer, setting),
                                          .heads = setting.heads,
                                          .dim = setting.dim,
                                          .width = setting.width,
                                          .dropout = setting.dropout});
      }};
}

}  // namespace longspan
