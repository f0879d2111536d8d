#include "framework/tokenizers/token_template.h"

namespace longspan {
namespace {

std::int64_t id_of(const JsonCursor& json) { return json.integer(0, (1 << 24) - 1); }

TokenTemplate read_single(const JsonCursor& json) {
  TokenTemplate result;
  const JsonCursor single = json["single"];
  bool has_text = false;
  for (std::size_t i = 0; i < single.size(); ++i) {
    const JsonCursor part = single[i];
    if (part.has("Sequence")) {
      if (has_text || part["Sequence"]["id"].text() != "A")
        part.throw_data_error("the sequence A, once");
      has_text = true;
      continue;
    }
    const JsonCursor token = json["special_tokens"][part["SpecialToken"]["id"].text()];
    const JsonCursor ids = token["ids"];
    for (std::size_t j = 0; j < ids.size(); ++j)
      (has_text ? result.after : result.before).push_back(id_of(ids[j]));
  }
  if (!has_text) single.throw_data_error("the sequence A in it");
  return result;
}

}  // namespace

TokenTemplate read_token_template(const JsonCursor& json) {
  if (!json.is_present()) return {};
  const JsonCursor type = json["type"];
  const std::string& kind = type.text();
  if (kind == "TemplateProcessing") return read_single(json);
  if (kind == "BertProcessing" || kind == "RobertaProcessing")
    return {{id_of(json["cls"][std::size_t{1}])}, {id_of(json["sep"][std::size_t{1}])}};
  if (kind == "ByteLevel") return {};
  if (kind != "Sequence")
    type.unknown("TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
  TokenTemplate result;
  const JsonCursor list = json["processors"];
  for (std::size_t i = 0; i < list.size(); ++i) {
    const TokenTemplate step = read_token_template(list[i]);
    result.before.insert(result.before.begin(), step.before.begin(), step.before.end());
    result.after.insert(result.after.end(), step.after.begin(), step.after.end());
  }
  return result;
}

}  // namespace longspan
