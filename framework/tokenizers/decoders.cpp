#include <numeric>

#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/pattern.h"
#include "framework/tokenizers/pre_tokenizers.h"

namespace longspan {
namespace {

using Texts = std::vector<std::string>;

constexpr std::string_view known_decoders =
    "ByteLevel, Metaspace, WordPiece, BPEDecoder, ByteFallback, Fuse, Strip, Replace or Sequence";

std::string joined(const Texts& texts) {
  return std::accumulate(texts.begin(), texts.end(), std::string());
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Returns the bytes, which may be incomplete characters.
Texts of_byte_letters(const Texts& texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += from_byte_letters(text).value_or(text);
  return {bytes};
}

// Returns the byte of <0x41>; -1 for text of another form.
int byte_of_piece(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || !text.ends_with('>')) return -1;
  int byte = 0;
  for (const char digit : text.substr(3, 2)) {
    const bool is_letter = (digit >= 'A' && digit <= 'F') || (digit >= 'a' && digit <= 'f');
    if (!is_letter && (digit < '0' || digit > '9')) return -1;
    byte = byte * 16 + (is_letter ? (digit | 0x20) - 'a' + 10 : digit - '0');
  }
  return byte;
}

// Each invalid byte becomes U+FFFD.
Texts of_byte_pieces(const Texts& texts) {
  Texts result;
  std::string bytes;
  const auto end_bytes = [&] {
    if (bytes.empty()) return;
    if (valid_utf8_bytes(bytes) == bytes.size())
      result.push_back(bytes);
    else
      for (std::size_t i = 0; i < bytes.size(); ++i)
        result.push_back(utf8_of(replacement_character));
    bytes.clear();
  };
  for (const std::string& text : texts) {
    const int byte = byte_of_piece(text);
    if (byte >= 0) {
      bytes.push_back(static_cast<char>(byte));
      continue;
    }
    end_bytes();
    result.push_back(text);
  }
  end_bytes();
  return result;
}

TokenDecoder read_metaspace_decoder(const JsonCursor& json) {
  const JsonCursor replacement = json["replacement"];
  const std::string letter = replacement.is_present() ? utf8_of(replacement.character()) : "\u2581";
  std::string scheme = json["add_prefix_space"].flag(true) ? "always" : "never";
  scheme = json["prepend_scheme"].text_or(scheme);
  return [letter, drops_first = scheme != "never"](Texts texts) {
    for (std::size_t i = 0; i < texts.size(); ++i)
      replace_all(texts[i], letter, i == 0 && drops_first ? "" : " ");
    return texts;
  };
}

// Removes spaces according to English punctuation.
void clean_up(std::string& text) {
  for (const auto& [from, to] : {std::pair(" .", "."),
                                 std::pair(" ?", "?"),
                                 std::pair(" !", "!"),
                                 std::pair(" ,", ","),
                                 std::pair(" ' ", "'"),
                                 std::pair(" n't", "n't"),
                                 std::pair(" 'm", "'m"),
                                 std::pair(" do not", " don't"),
                                 std::pair(" 's", "'s"),
                                 std::pair(" 've", "'ve"),
                                 std::pair(" 're", "'re")})
    replace_all(text, from, to);
}

TokenDecoder read_word_piece(const JsonCursor& json) {
  return [prefix = json["prefix"].text_or("##"), cleans = json["cleanup"].flag(true)](Texts texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (i > 0 && texts[i].starts_with(prefix))
        texts[i].erase(0, prefix.size());
      else if (i > 0)
        texts[i].insert(0, " ");
      if (cleans) clean_up(texts[i]);
    }
    return texts;
  };
}

TokenDecoder read_word_ends(const JsonCursor& json) {
  return [suffix = json["suffix"].text_or("</w>")](Texts texts) {
    if (suffix.empty()) return texts;
    for (std::size_t i = 0; i < texts.size(); ++i)
      replace_all(texts[i], suffix, i + 1 == texts.size() ? "" : " ");
    return texts;
  };
}

TokenDecoder read_strip(const JsonCursor& json) {
  const auto count = [&json](std::string_view key) {
    return static_cast<std::size_t>(json[key].integer(0, INT32_MAX));
  };
  return [letter = utf8_of(json["content"].character()),
          start = count("start"),
          stop = count("stop")](Texts texts) {
    for (std::string& text : texts) {
      for (std::size_t i = 0; i < start && text.starts_with(letter); ++i)
        text.erase(0, letter.size());
      for (std::size_t i = 0; i < stop && text.ends_with(letter); ++i)
        text.resize(text.size() - letter.size());
    }
    return texts;
  };
}

TokenDecoder read_replace_decoder(const JsonCursor& json) {
  return [pattern = TextPattern::from_json(json["pattern"]),
          content = json["content"].text()](Texts texts) {
    for (std::string& text : texts) {
      std::string result;
      PatternScan scan(pattern, text);
      PatternSpan span;
      while (scan.next(span))
        result += span.is_match ? content : text.substr(span.begin, span.end - span.begin);
      text = std::move(result);
    }
    return texts;
  };
}

// Each invalid byte becomes U+FFFD, since later steps require UTF-8.
Texts of_characters(Texts texts) {
  for (std::string& text : texts) {
    std::string whole;
    std::string_view rest = text;
    while (true) {
      const std::size_t valid = valid_utf8_bytes(rest);
      whole += rest.substr(0, valid);
      if (valid == rest.size()) break;
      whole += "\xEF\xBF\xBD";
      rest.remove_prefix(valid + 1);
    }
    text = std::move(whole);
  }
  return texts;
}

TokenDecoder read_sequence_decoder(const JsonCursor& json) {
  std::vector<TokenDecoder> steps;
  const JsonCursor list = json["decoders"];
  for (std::size_t i = 0; i < list.size(); ++i) steps.push_back(read_token_decoder(list[i]));
  return [steps](Texts texts) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (i > 0) texts = of_characters(std::move(texts));
      if (steps[i]) texts = steps[i](std::move(texts));
    }
    return texts;
  };
}

}  // namespace

TokenDecoder read_token_decoder(const JsonCursor& json) {
  if (!json.is_present()) return {};
  const JsonCursor type = json["type"];
  const std::string& kind = type.text();
  if (kind == "ByteLevel") return of_byte_letters;
  if (kind == "ByteFallback") return of_byte_pieces;
  if (kind == "Fuse") return [](const Texts& texts) { return Texts{joined(texts)}; };
  if (kind == "Metaspace") return read_metaspace_decoder(json);
  if (kind == "WordPiece") return read_word_piece(json);
  if (kind == "BPEDecoder") return read_word_ends(json);
  if (kind == "Strip") return read_strip(json);
  if (kind == "Replace") return read_replace_decoder(json);
  if (kind == "Sequence") return read_sequence_decoder(json);
  type.unknown(known_decoders);
}

}  // namespace longspan
