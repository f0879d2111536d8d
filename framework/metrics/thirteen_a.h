// The tokenizers "13a" of mteval-v13a.pl and "zh", as sacreBLEU has them (Post 2018).
#pragma once

#include <string>
#include <string_view>

namespace longspan {

// The tokens of a line with one space between them, equal to those of
// sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a. It strips no white space at the end first, as
// BLEU does.
std::string tokenize_13a(std::string_view line);

// Likewise of sacrebleu.tokenizers.tokenizer_zh.TokenizerZh: each Chinese character, and mark of
// punctuation of full width, is a token, and 13a's rules without its markup split the rest.
// Japanese kana are none of them.
std::string tokenize_zh(std::string_view line);

}  // namespace longspan
