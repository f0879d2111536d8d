// The tokenizers "13a" of mteval-v13a.pl and "zh", as in sacreBLEU (Post 2018).
#pragma once

#include <string>
#include <string_view>

namespace longspan {

// Returns a line's tokens separated by one space, equal to those of
// sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a. Does not strip trailing white space first, which
// BLEU does.
std::string tokenize_13a(std::string_view line);

// Returns tokens equal to those of sacrebleu.tokenizers.tokenizer_zh.TokenizerZh. Each Chinese
// character and full-width punctuation mark is a token; 13a's rules without its markup split the
// rest. Japanese kana are not separated.
std::string tokenize_zh(std::string_view line);

}  // namespace longspan
