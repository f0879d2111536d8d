#include "framework/nn/attention/attention_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "framework/core/quote.h"
#include "framework/nn/attention/additive_attention.h"
#include "framework/nn/attention/attention_free_layers.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/attention/masked_attention_kinds.h"
#include "framework/nn/attention/recurrent_layers.h"
#include "framework/options/field_names.h"

namespace longspan {
namespace {

// Registers attention types that have their own op.
const std::vector<AttentionKind>& mechanism_kinds() {
  static const std::vector<AttentionKind> all = [] {
    std::vector<AttentionKind> kinds = {lsh_kind(),
                                        linear_kind(),
                                        efficient_kind(),
                                        performer_kind(),
                                        random_features_kind(),
                                        linformer_kind(),
                                        routing_kind(),
                                        sinkhorn_kind(),
                                        synthesizer_kind(),
                                        compressed_kind(),
                                        additive_kind()};
    std::ranges::move(recurrent_kinds(), std::back_inserter(kinds));
    kinds.push_back(mamba2_kind());
    kinds.push_back(rwkv7_kind());
    std::ranges::move(attention_free_kinds(), std::back_inserter(kinds));
    kinds.push_back(fourier_kind());
    kinds.push_back(spatial_gating_kind());
    kinds.push_back(mlp_mixer_kind());
    kinds.push_back(local_2d_kind());
    return kinds;
  }();
  return all;
}

const AttentionKind* find_attention_kind(const AttentionOptions& options, std::string_view name) {
  const auto& all = mechanism_kinds();
  const auto found = std::ranges::find(all, name, &AttentionKind::name);
  if (found != all.end()) return &*found;
  const auto added = std::ranges::find(options.added, name, &AttentionKind::name);
  return added == options.added.end() ? nullptr : &*added;
}

// Returns the types that a part of an element combines.
std::vector<const MaskedAttentionKind*> united(const std::string& part) {
  std::vector<const MaskedAttentionKind*> result;
  for (const std::string& name : split(part, '+')) result.push_back(find_mask_kind(name));
  return result;
}

std::vector<std::string> all_names(const AttentionOptions& options) {
  std::vector<std::string> names;
  for (const MaskedAttentionKind& kind : mask_kinds()) names.push_back(kind.name);
  for (const AttentionKind& kind : mechanism_kinds()) names.push_back(kind.name);
  for (const AttentionKind& kind : options.added) names.push_back(kind.name);
  return names;
}

bool has_kind(const std::string& element, std::string_view name) {
  return std::ranges::any_of(split(element, '/'), [&](const std::string& part) {
    return std::ranges::count(split(part, '+'), name) > 0;
  });
}

const std::string& element_of(const AttentionOptions& options, std::int64_t layer) {
  return options.kinds[static_cast<std::size_t>(layer % std::ssize(options.kinds))];
}

std::string validate_documents(const std::string& kind) {
  return fmt::format(
      "model.attention.layer_types: {} does not support data.documents.reset_attention_mask; use "
      "full, sliding_window, dilated or strided",
      kind);
}

// Returns the message about the unknown types of all elements.
std::string unknown_types(const AttentionOptions& options) {
  const std::vector<std::string> names = all_names(options);
  std::vector<std::string> unknown;
  std::vector<std::string> quoted;
  for (const std::string& element : options.kinds)
    for (const std::string& part : split(element, '/'))
      for (const std::string& name : split(part, '+')) {
        if (std::ranges::count(names, name) > 0 || std::ranges::count(unknown, name) > 0) continue;
        unknown.push_back(name);
        quoted.push_back(quote(name));
      }
  return fmt::format(
      "model.attention.layer_types: expected one of {} (a/b divides the heads between types a and "
      "b, a+b combines their masks), found {}{}",
      fmt::join(names, ", "),
      fmt::join(quoted, ", "),
      value_hint("model.attention.layer_types", unknown, names));
}

// Checks one element of model.attention.layer_types.
std::string problem_of(const std::string& element,
                       const AttentionOptions& options,
                       const AttentionBuildOptions& setting) {
  if (const AttentionKind* const own = find_attention_kind(options, element)) {
    if (setting.documents && !own->supports_documents) return validate_documents(own->name);
    return own->problem != nullptr ? own->problem(options, setting) : "";
  }
  const std::vector<std::string> parts = split(element, '/');
  for (const std::string& part : parts) {
    const std::vector<std::string> names = split(part, '+');
    for (const std::string& name : names) {
      if (const AttentionKind* const own = find_attention_kind(options, name))
        return fmt::format(
            "model.attention.layer_types: {} in {} cannot be combined with another type: {}",
            name,
            quote(element),
            own->alone);
      const MaskedAttentionKind* const kind = find_mask_kind(name);
      if (kind == nullptr) return unknown_types(options);
      if (setting.memory && !kind->shifts)
        return fmt::format(
            "model.attention.layer_types: {} does not support model.mem_len; use "
            "full, sliding_window, dilated or strided",
            name);
      if (setting.documents && !kind->shifts) return validate_documents(name);
      if (std::ranges::count(names, name) > 1)
        return fmt::format(
            "model.attention.layer_types: {} occurs twice in {}", name, quote(element));
    }
  }
  if (setting.heads % std::ssize(parts) != 0)
    return fmt::format(
        "model.num_attention_heads: expected a multiple of the {} parts of {} in "
        "model.attention.layer_types, found {}",
        parts.size(),
        quote(element),
        setting.heads);
  return "";
}

// Returns whether a query of any layer has a random block.
bool has_random_blocks(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  for (std::int64_t layer = 0; layer < setting.layers; ++layer) {
    if (!has_kind(element_of(options, layer), "global_local")) continue;
    const HeadContext first = {.options = options,
                               .layer = layer,
                               .head = 0,
                               .index = 0,
                               .positions = setting.segment,
                               .causal = setting.causal};
    if (has_random_blocks(first.global(), setting.segment)) return true;
  }
  return false;
}

// Returns a clause for messages with the length of training sequences.
std::string describe_length(const AttentionBuildOptions& setting) {
  return setting.examples
             ? fmt::format("data.max_length limits a sequence to {} positions", setting.segment)
             : fmt::format("data.seq_length is {}", setting.segment);
}

std::string problem_with_segment(const AttentionOptions& options,
                                 const AttentionBuildOptions& setting) {
  const std::int64_t segment = setting.segment;
  const std::string length = describe_length(setting);
  if (has_kind(options, "strided") && options.stride >= segment)
    return fmt::format(
        "model.attention.stride: {} leaves only the query itself to strided attention: {}",
        options.stride,
        length);
  for (const std::string name : {"block", "summary", "fixed"})
    if (has_kind(options, name) && options.stride >= segment)
      return fmt::format("model.attention.stride: {} leaves a single block to {} attention: {}",
                         options.stride,
                         name,
                         length);
  if (has_kind(options, "dilated") && options.dilation >= segment && !setting.memory)
    return fmt::format(
        "model.attention.dilation: {} leaves only the query itself to dilated attention: {}",
        options.dilation,
        length);
  if (has_kind(options, "global_local"))
    for (const std::int64_t position : options.global)
      if (position >= segment)
        return fmt::format(
            "model.attention.global_local.global_positions: position {} is out of range: {}",
            position,
            length);
  if (has_kind(options, "global_local") && options.random > 0 &&
      !has_random_blocks(options, setting))
    return fmt::format(
        "model.attention.global_local.num_random_blocks: found {}, but no block of "
        "model.attention.global_local.block_size = {} positions is outside the "
        "window and the global positions: {}",
        options.random,
        options.block,
        length);
  return "";
}

HeadMaskParts head_keys(const std::string& part, const HeadContext& place) {
  std::optional<Mask> all;
  std::int64_t window = -1;  // only for a folded union
  bool columns = false;
  bool others = false;
  bool projects = false;
  for (const MaskedAttentionKind* const kind : united(part)) {
    const Mask keys = kind->keys(place);
    all = all ? *all | keys : keys;
    columns |= kind->folded == Folded::columns;
    others |= kind->folded == Folded::never;
    projects |= kind->global && place.options.global_projections;
    if (kind->folded == Folded::window) window = place.window();
  }
  if (projects) {
    all = *all & other_queries(place.global());
    return {
        .rules = *all, .near = *all & masks::causal(), .global = global_queries(place.global())};
  }
  if (!columns || others) return {.rules = *all, .near = *all & masks::causal()};
  HeadMaskParts result = {.rules = *all, .near = masks::nothing()};
  if (window >= 0) result.near = sliding_window_mask({.left = window}) & masks::causal();
  result.columns = columns_beyond(window, place.options.stride);
  return result;
}

// Returns the max distance over the heads of all parts. None if a part is unbounded.
std::optional<std::int64_t> farthest_of(const std::vector<std::string>& parts,
                                        const HeadContext& place) {
  std::int64_t farthest = 0;
  for (const std::string& part : parts)
    for (const MaskedAttentionKind* const kind : united(part)) {
      if (kind->max_distance == nullptr) return std::nullopt;
      farthest = std::max(farthest, kind->max_distance(place));
    }
  return farthest;
}

AttentionPattern pattern_of(const std::string& element,
                            const AttentionOptions& options,
                            std::int64_t layer,
                            std::int64_t heads,
                            bool causal) {
  if (element == "full" || find_attention_kind(options, element) != nullptr) return {};
  const std::vector<std::string> parts = split(element, '/');
  const auto place = [=](std::int64_t head, std::int64_t positions) -> HeadContext {
    return {.options = options,
            .layer = layer,
            .head = head,
            .index = head / std::ssize(parts),
            .positions = positions,
            .causal = causal};
  };
  const auto table = [=](std::int64_t positions) {
    std::vector<HeadMaskParts> result;
    for (std::int64_t head = 0; head < heads; ++head)
      result.push_back(head_keys(parts[static_cast<std::size_t>(head % std::ssize(parts))],
                                 place(head, positions)));
    return result;
  };
  return AttentionPattern(
      table, options.stride, projects_global(options, layer), farthest_of(parts, place(0, 0)));
}

}  // namespace

std::string describe_kinds() {
  std::string text;
  for (const MaskedAttentionKind& kind : mask_kinds())
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", kind.name, kind.sees);
  for (const AttentionKind& kind : mechanism_kinds())
    text += fmt::format(", {} ({})", kind.name, kind.sees);
  return text;
}

bool has_kind(const AttentionOptions& options, std::string_view name) {
  return std::ranges::any_of(options.kinds,
                             [&](const std::string& element) { return has_kind(element, name); });
}

Condition layer_type(std::vector<std::string> kinds) {
  const auto reason = [kinds](const OptionTable& table) -> std::string {
    for (const char* const key :
         {"model.attention.layer_types", "model.attention.encoder_layer_types"}) {
      if (!table.has(key)) continue;
      for (const std::string& element : table.words(key))
        for (const std::string& kind : kinds)
          if (has_kind(element, kind)) return "";
    }
    return fmt::format("no layer of model.attention.layer_types has {}", join_or(kinds));
  };
  return {.phrase = "layer type " + join_or(kinds), .reason = reason};
}

std::string problem_of(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  if (std::ssize(options.kinds) > setting.layers)
    return fmt::format(
        "model.attention.layer_types: expected at most model.num_hidden_layers = {} "
        "elements, found {}",
        setting.layers,
        options.kinds.size());
  for (const AttentionKind& kind : options.added) {
    if (kind.name.empty() || kind.name.find_first_of("/+,") != std::string::npos)
      return fmt::format("attention type {}: expected a name without / + and ,", quote(kind.name));
    if (kind.make == nullptr && kind.make_mixer == nullptr)
      return fmt::format("attention type {}: `make` is missing", kind.name);
    if (find_mask_kind(kind.name) != nullptr || find_attention_kind(options, kind.name) != &kind)
      return fmt::format("attention type {} already exists", kind.name);
  }
  for (const std::string& element : options.kinds)
    if (const std::string problem = problem_of(element, options, setting); !problem.empty())
      return problem;
  if (options.sliding_window.size() != 1 && std::ssize(options.sliding_window) != setting.layers)
    return fmt::format(
        "model.attention.sliding_window: expected 1 element or "
        "model.num_hidden_layers = {}, found {}",
        setting.layers,
        options.sliding_window.size());
  const bool summaries = has_kind(options, "summary") || has_kind(options, "fixed");
  if (summaries && options.summary * options.summary_groups > options.stride)
    return fmt::format(
        "model.attention.summary.num_columns: {} x model.attention.summary.num_patterns = {} "
        "exceeds model.attention.stride = {}",
        options.summary,
        options.summary_groups,
        options.stride);
  return setting.segment > 0 ? problem_with_segment(options, setting) : "";
}

std::string layers_of_other_weights(std::string_view kinds,
                                    std::int64_t layers,
                                    bool global_projections) {
  if (kinds.starts_with('[')) kinds = kinds.substr(1, kinds.size() - 2);
  AttentionOptions options = {.kinds = split(kinds, ','), .global_projections = global_projections};
  for (std::string& element : options.kinds) element.erase(0, element.find_first_not_of(' '));
  std::string result;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const AttentionKind* const own = attention_kind(options, layer);
    if (own != nullptr && own->own_weights) result += fmt::format(" {} {}", layer, own->name);
    if (projects_global(options, layer)) result += fmt::format(" {} global", layer);
  }
  return result;
}

const AttentionKind* attention_kind(const AttentionOptions& options, std::int64_t layer) {
  return find_attention_kind(options, element_of(options, layer));
}

const AttentionKind* first_kind_without_kv_cache(const AttentionOptions& options) {
  for (const std::string& element : options.kinds) {
    const AttentionKind* const own = find_attention_kind(options, element);
    if (own != nullptr && !own->supports_kv_cache) return own;
  }
  return nullptr;
}

std::int64_t max_sequence_length_of(const AttentionOptions& options, std::int64_t segment) {
  std::int64_t longest = 0;
  for (const std::string& element : options.kinds) {
    const AttentionKind* const own = find_attention_kind(options, element);
    if (own != nullptr && own->longest != nullptr)
      longest = shorter_of(longest, own->longest(options, segment));
  }
  return longest;
}

std::int64_t shorter_of(std::int64_t a, std::int64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

bool has_probabilities(const AttentionOptions& options) {
  return std::ranges::any_of(options.kinds, [&](const std::string& element) {
    const AttentionKind* const own = find_attention_kind(options, element);
    return own == nullptr || own->has_probabilities;
  });
}

const AttentionKind* first_kind_without_relative_positions(const AttentionOptions& options) {
  for (const std::string& element : options.kinds) {
    const AttentionKind* const own = find_attention_kind(options, element);
    if (own != nullptr && !own->knows_distances) return own;
  }
  return nullptr;
}

const AttentionKind* first_kind_without_rotary(const AttentionOptions& options) {
  for (const std::string& element : options.kinds) {
    const AttentionKind* const own = find_attention_kind(options, element);
    if (own != nullptr && !own->turns) return own;
  }
  return nullptr;
}

bool projects_global(const AttentionOptions& options, std::int64_t layer) {
  return options.global_projections && has_kind(element_of(options, layer), "global_local");
}

std::vector<AttentionPattern> attention_patterns(const AttentionOptions& options,
                                                 const AttentionBuildOptions& setting) {
  throw_if_error(problem_of(options, setting));
  std::vector<AttentionPattern> patterns;
  for (std::int64_t layer = 0; layer < setting.layers; ++layer)
    patterns.push_back(
        pattern_of(element_of(options, layer), options, layer, setting.heads, setting.causal));
  return patterns;
}

}  // namespace longspan
