// The tokenizer "13a" of mteval-v13a.pl, as sacreBLEU has it (Post 2018).
#pragma once

#include <string>
#include <string_view>

namespace longspan {

// The tokens of a line with one space between them, equal to those of
// sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a. It strips no white space at the end first, as
// BLEU does.
std::string tokenize_13a(std::string_view line);

}  // namespace longspan
