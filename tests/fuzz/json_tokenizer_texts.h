// Encodes and decodes texts with a tokenizer.json.
#pragma once

#include "framework/tokenizers/json_tokenizer.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {

inline void read_text(const JsonTokenizer& tokenizer, std::string_view text) {
  std::vector<std::int64_t> ids;
  std::int64_t before = 0;
  tokenizer.encode(text, "a text", [&](const JsonToken& token) {
    expect(token.id >= 0 && token.id < tokenizer.vocabulary(), "a text becomes an id that is none");
    expect(token.end >= before && token.end <= std::ssize(text),
           "a token ends outside of its text");
    before = token.end;
    ids.push_back(token.id);
  });
  tokenizer.decode(ids);
  tokenizer.decode(ids, true);
  expect(tokenizer.ids(text, "a text") == ids, "a text has other ids when it is read again");
  if (!tokenizer.supports_chunking()) return;
  const std::size_t cut = tokenizer.chunk_boundary(text, 1);
  if (cut == std::string_view::npos) return;
  std::vector<std::int64_t> of_parts = tokenizer.ids(text.substr(0, cut), "a part");
  tokenizer.encode(
      text.substr(cut),
      "a part",
      [&](const JsonToken& token) { of_parts.push_back(token.id); },
      static_cast<std::int64_t>(cut));
  expect(of_parts == ids, "the parts of a text have other ids than the whole");
}

inline void read_texts(const JsonTokenizer& tokenizer, std::string_view text) {
  for (const std::string_view each :
       {text,
        std::string_view("Some words, 12 of them: \"caf\u00e9\" \u4e2d\u6587 don't</s>\n  end")})
    is_read([&] { read_text(tokenizer, each); });
  tokenizer.ids("", "nothing", true);
  for (std::int64_t id = -1; id <= std::min<std::int64_t>(tokenizer.vocabulary(), 300); ++id) {
    tokenizer.is_special(id);
    tokenizer.id_of(tokenizer.token(id));
  }
}

}  // namespace longspan::fuzzing
