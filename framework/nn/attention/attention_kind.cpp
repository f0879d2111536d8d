#include "framework/nn/attention/attention_kind.h"

namespace longspan {

std::string whole_heads_problem(const std::string& kind,
                                std::int64_t heads,
                                const MeshShape& mesh) {
  if (heads % (std::int64_t{mesh.tensor} * mesh.context) == 0) return "";
  return fmt::format(
      "model.num_attention_heads is {}: attention {} divides heads over tensor and context ranks, "
      "of which there "
      "are {} x {}",
      heads,
      kind,
      mesh.tensor,
      mesh.context);
}

bool is_causal_only(const AttentionMask& mask, const std::string& kind) {
  const bool causal = is_causal(mask, kind, "it looks at the tokens of a segment");
  if (mask.key_padding.defined())
    throw ConfigurationError("attention {} knows padding behind a row alone", kind);
  return causal;
}

}  // namespace longspan
