#include "framework/nn/attention/attention_kind.h"

namespace longspan {

std::string validate_head_sharding(const std::string& kind,
                                   std::int64_t heads,
                                   const MeshShape& mesh) {
  if (heads % (std::int64_t{mesh.tensor} * mesh.context) == 0) return "";
  return fmt::format(
      "model.num_attention_heads: attention type {} requires a multiple of {} x {} "
      "(tensor and context ranks), found {}",
      kind,
      mesh.tensor,
      mesh.context,
      heads);
}

bool is_causal_only(const AttentionMask& mask, const std::string& kind) {
  const bool causal = is_causal(mask, kind, "it attends to the tokens of one segment");
  if (mask.key_padding.defined())
    throw ConfigurationError("attention type {} supports padding only at the end of a row", kind);
  return causal;
}

}  // namespace longspan
