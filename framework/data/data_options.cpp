#include "framework/data/data_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "framework/core/input_file.h"
#include "framework/core/quote.h"
#include "framework/core/utf8.h"
#include "framework/data/corpus/document_text.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/data/tokenization/tokenizer_training.h"
#include "framework/options/options.h"

namespace longspan {
namespace {

bool reads_ids(const DataOptions& options) { return options.format == DataFormat::tokens; }

// Returns readable, seekable texts of data.train, data.validation and data.test, up to a limit.
// Errors of the others are reported when they are opened for reading.
std::vector<std::shared_ptr<const InputFile>> texts_of(const DataOptions& options) {
  constexpr std::size_t most = 100;
  std::vector<std::shared_ptr<const InputFile>> files;
  for (const PathList* list : {&options.train, &options.validation, &options.test}) {
    for (const WeightedPath& part : list->parts) {
      try {
        for (const ConfigPath& path : files_matching(part.path)) {
          std::error_code unused;
          if (files.size() == most) return files;
          if (std::filesystem::is_regular_file(path.text(), unused))
            files.push_back(open_text(path));
        }
      } catch (const DataError&) {
        continue;
      }
    }
  }
  return files;
}

// Returns whether such texts exist and is_json_lines has this value for all of them.
bool all_are_json_lines(const DataOptions& options, bool wanted) {
  try {
    const auto files = texts_of(options);
    return !files.empty() && std::ranges::all_of(files, [&](const auto& file) {
      return is_json_lines(*file, options.documents) == wanted;
    });
  } catch (const DataError&) {
    return false;
  }
}

// Returns whether texts may be read from token files for any tokenizer.
bool may_have_token_file(const DataOptions& options) {
  return options.documents.boundary != DocumentBoundary::none ||
         !std::ranges::all_of(texts_of(options), [&](const auto& file) {
           return is_plain_text(*file, options.documents);
         });
}

// Returns why a subword key is not read, or, for training keys (`trains`), that a model is given.
std::string unread(const DataOptions& options, bool trains) {
  if (options.tokenizer != TokenizerKind::sentencepiece &&
      options.tokenizer != TokenizerKind::tokenizer_json)
    return fmt::format("data.tokenizer.type is {}", name_of(options.tokenizer));
  if (trains && options.starts_with_saved) return "training.init_from.path provides the tokenizer";
  return trains && !options.tokenizer_model.empty() ? "data.tokenizer.model is set" : "";
}

void declare_subwords(OptionTable& table, DataOptions& options) {
  table.add(
      "data.tokenizer.model",
      options.tokenizer_model,
      "existing model: a .model file (sentencepiece), or a tokenizer.json, or a directory with it, "
      "with vocab.json and merges.txt or with vocab.txt (huggingface); empty: that of the "
      "checkpoint of the run or of training.init_from.path, otherwise one trained on data.train",
      only_with(is("data.tokenizer.type", {"sentencepiece", "huggingface"})));
  table.add("data.tokenizer.model_type",
            options.tokenizer_kind,
            "type of the trained model: unigram, bpe, char or word with sentencepiece; bpe "
            "(byte-level, as in GPT-2) or wordpiece (lower-case, as in BERT) with huggingface",
            {{"unigram", SentencePieceModelType::unigram},
             {"bpe", SentencePieceModelType::bpe},
             {"char", SentencePieceModelType::characters},
             {"word", SentencePieceModelType::words},
             {"wordpiece", SentencePieceModelType::word_pieces}},
            only_with(is("data.tokenizer.type", {"sentencepiece", "huggingface"})));
  table.add("data.tokenizer.vocab_size",
            options.vocabulary,
            "vocabulary size of the trained model, with sentencepiece including 259 ids for bytes, "
            "unknown text and sentence ends, with model type char possibly less. With "
            "data.tokenizer.type: none, number of ids, all of which must be smaller",
            between(1, max_subword_vocabulary));
  table.add("data.cache_dir",
            options.token_cache,
            "directory of the cached tokens of text files; empty: tokens/ in the run's directory. "
            "Only with data.tokenizer.type: sentencepiece or huggingface, or with files that are "
            "compressed or divided into documents");
  table.warn("data.tokenizer.model_type", [&options] { return unread(options, true); });
  table.warn("data.tokenizer.vocab_size", [&options] {
    return options.tokenizer == TokenizerKind::ids ? "" : unread(options, true);
  });
  table.warn("data.cache_dir", [&options]() -> std::string {
    if (reads_ids(options)) return "data.format is tokens";
    return may_have_token_file(options) ? "" : unread(options, false);
  });
  table.check({"data.tokenizer.vocab_size", "data.tokenizer.type"}, [&options]() -> std::string {
    if (!trains_tokenizer(options) || options.vocabulary >= min_subword_vocabulary) return "";
    return fmt::format(
        "data.tokenizer.vocab_size: expected at least {} ids for a subword model, found {}",
        min_subword_vocabulary,
        options.vocabulary);
  });
}

// Declares the options of pretokenized files.
void declare_ids(OptionTable& table, DataOptions& options) {
  table.add("data.token_dtype",
            options.token_bits,
            "little-endian type of an id: uint16, uint32, uint64 or auto (that of the .npy header "
            "or Megatron-LM's .idx, otherwise uint16 for up to 65536 ids, else uint32)",
            {{"auto", TokenDType::fitting},
             {"uint16", TokenDType::sixteen},
             {"uint32", TokenDType::thirty_two},
             {"uint64", TokenDType::sixty_four}},
            only_with(is("data.format", {"tokens"})));
  table.check({"data.tokenizer.type", "data.format"}, [&options]() -> std::string {
    if (!reads_ids(options) || options.tokenizer == TokenizerKind::ids) return "";
    const bool is_model = options.tokenizer == TokenizerKind::sentencepiece ||
                          options.tokenizer == TokenizerKind::tokenizer_json;
    if (is_model && !options.tokenizer_model.empty()) return "";
    return "data.format: tokens requires data.tokenizer.type: none with data.tokenizer.vocab_size, "
           "or sentencepiece or huggingface with data.tokenizer.model";
  });
  table.check(
      {"data.tokenizer.vocab_size", "data.tokenizer.type"}, [&options, &table]() -> std::string {
        if (options.tokenizer != TokenizerKind::ids || table.is_given("data.tokenizer.vocab_size"))
          return "";
        return "data.tokenizer.type: none requires data.tokenizer.vocab_size";
      });
}

Condition has_weights(const DataOptions& options) {
  return {.key = "data.train",
          .phrase = "weights in data.train",
          .reason = [&options](const OptionTable&) -> std::string {
            return options.train.is_weighted() ? "" : "data.train has no weights";
          }};
}

// Declares how a language model reads documents.
void declare_order(OptionTable& table, DataOptions& options) {
  table.add("data.shuffle",
            options.shuffle,
            "random order of the documents of data.train, different in each epoch; false: order of "
            "the files",
            only_with(is("run.task", {"language_modeling"})));
  table.add("data.documents.reset_attention_mask",
            options.reset_attention_mask,
            "no attention and no prediction across the documents of a sequence, in training and "
            "evaluation; false: a sequence is one document",
            only_with(is("run.task", {"language_modeling"})));
  table.add("data.documents.chunk_length",
            options.piece,
            "chunk length in tokens of texts without documents (data.documents.sample_by), whose "
            "chunks serve as documents",
            between(2, std::int64_t{1} << 40),
            only_with(any_of({is_set("data.shuffle"),
                              is_set("data.documents.reset_attention_mask"),
                              has_weights(options)})));
  table.check({"data.train"}, [&options]() -> std::string {
    const auto& parts = options.train.parts;
    const auto weighted = std::ranges::count_if(
        parts, [](const WeightedPath& part) { return part.weight.has_value(); });
    if (weighted == 0 || weighted == std::ssize(parts)) return "";
    return fmt::format(
        "data.train: {} of {} paths have a weight; set a weight for every path or "
        "for none",
        weighted,
        parts.size());
  });
  for (const PathList* list : {&options.validation, &options.test})
    table.check(
        {list == &options.validation ? "data.validation" : "data.test"},
        [list,
         key = list == &options.validation ? "data.validation" : "data.test"]() -> std::string {
          if (!list->is_weighted()) return "";
          return fmt::format("{} does not support weights", key);
        });
}

void declare_rollouts(OptionTable& table, RolloutOptions& options) {
  table.add("ppo.gamma",
            options.discount,
            "discount factor of rewards per step (0.997 or more for late rewards)",
            between(0.0, 1.0),
            only_with(is("run.task", {"reinforcement_learning"})));
  table.add("ppo.gae_lambda",
            options.lambda,
            "lambda of generalized advantage estimation, from 0 (values) to 1 (rewards)",
            between(0.0, 1.0),
            only_with(is("run.task", {"reinforcement_learning"})));
  table.add("ppo.num_epochs",
            options.epochs,
            "number of epochs over each rollout of data.seq_length steps",
            between(1, 1000),
            only_with(is("run.task", {"reinforcement_learning"})));
  table.add("ppo.num_minibatches",
            options.minibatches,
            "number of minibatches per epoch, groups of the data.global_batch_size environments; a "
            "rollout gives ppo.num_epochs x ppo.num_minibatches training steps",
            between(1, 1 << 20),
            only_with(is("run.task", {"reinforcement_learning"})));
  table.add("ppo.deterministic_eval",
            options.greedy,
            "most likely actions in validation and longspan evaluate; false: sampled actions, as "
            "in training",
            only_with(is("run.task", {"reinforcement_learning"})));
}

Tokenizer characters_of_all(const std::vector<Tokenizer>& tokenizers, bool with_unknown) {
  std::vector<char32_t> found;
  for (const Tokenizer& tokenizer : tokenizers) {
    for (std::int64_t id = with_unknown ? 1 : 0; id < tokenizer.vocabulary(); ++id)
      found.push_back(decode_utf8(tokenizer.decode({&id, 1})).code_point);
  }
  return Tokenizer::characters(found, with_unknown);
}

// Returns whether a character tokenizer covers another, and both or neither have <unknown>.
bool has_characters(const Tokenizer& tokenizer, const Tokenizer& other) {
  if (tokenizer.kind() != TokenizerKind::characters ||
      tokenizer.has_unknown() != other.has_unknown())
    return false;
  for (std::int64_t id = other.has_unknown() ? 1 : 0; id < other.vocabulary(); ++id) {
    const std::int64_t found = tokenizer.id_of(decode_utf8(other.decode({&id, 1})).code_point);
    if (found < 0 || (tokenizer.has_unknown() && found == Tokenizer::unknown_id)) return false;
  }
  return true;
}

}  // namespace

void declare(OptionTable& table, DataOptions& options) {
  table.add(
      "data.format",
      options.format,
      "format of data.train, data.validation and data.test: text, images or tokens. Images: IDX "
      "files with labels in data.train_target and its counterparts (optional with run.task: "
      "image_generation), or a directory with a folder of PNG files per class. Tokens: id files of "
      "nanoGPT, Megatron-LM (.bin) or NumPy (.npy)",
      {{"text", DataFormat::text}, {"images", DataFormat::images}, {"tokens", DataFormat::tokens}},
      // Pretokenized data does not change a model.
      affects_weights(
          [](const std::string& format) { return format == "tokens" ? "text" : format; }),
      value_needs("images", is("run.task", {"classification", "image_generation"})),
      value_needs("tokens", is("run.task", {"language_modeling"})));
  table.add("data.train",
            options.train,
            "training file. With run.task: language_modeling also a list of paths, which may "
            "contain *, ? and [...], or of {path: PATH, weight: NUMBER}, whose documents are "
            "mixed in proportion to the weights, in tokens",
            required(),
            not_empty());
  table.add("data.validation",
            options.validation,
            "validation file; empty: none. The loss of each file of a list is measured too");
  table.add("data.test", options.test, "test file, measured at the end; empty: none");
  const Condition has_targets =
      any_of({is("run.task", {"translation"}), is("data.format", {"images"})});
  table.add("data.train_target",
            options.train_target,
            "file with the target of each line of data.train, or the labels of an IDX file",
            only_with(has_targets));
  table.add("data.validation_target",
            options.validation_target,
            "target file of data.validation, as data.train_target",
            only_with(has_targets));
  table.add("data.test_target",
            options.test_target,
            "target file of data.test, as data.train_target",
            only_with(has_targets));
  table.add("data.train_alignments",
            options.train_alignments,
            "file with the word alignment of each line of data.train, such as 0-0 1-2: source and "
            "target tokens of data.tokenizer.type, counted from 0",
            needs(is("model.guided_attention.type", {"alignment"})),
            only_with(is("run.task", {"translation"})));
  table.add("data.tag_format",
            options.tag_columns,
            "format of a line: tsv (word, tab, tag), or conllu_upos or conllu_xpos (CoNLL-U with "
            "the universal or language-specific part of speech as the tag)",
            {{"tsv", TagColumns::two},
             {"conllu_upos", TagColumns::upos},
             {"conllu_xpos", TagColumns::xpos}},
            only_with(is("run.task", {"tagging"})));
  table.add(
      "data.tokenizer.type",
      options.tokenizer,
      "tokenizer: byte (256 ids, any file), char (UTF-8 characters of data.train), sentencepiece, "
      "huggingface (tokenizer.json) or none. none reads ids below data.tokenizer.vocab_size: with "
      "data.format: tokens, or as numbers separated by blanks with run.task: translation, "
      "classification and tagging",
      {{"byte", TokenizerKind::bytes},
       {"char", TokenizerKind::characters},
       {"sentencepiece", TokenizerKind::sentencepiece},
       {"huggingface", TokenizerKind::tokenizer_json},
       {"none", TokenizerKind::ids}},
      affects_weights(),
      value_needs(
          "huggingface",
          is("run.task", {"language_modeling", "translation", "classification", "tagging"})));
  table.add(
      "data.tokenizer.allow_unk",
      options.unknown,
      "id <unknown> for characters that data.train does not contain; false: such a character is an "
      "error. Measured losses include the choice of the character among all such characters",
      affects_weights(),
      only_with(is("data.tokenizer.type", {"char"})));
  declare_subwords(table, options);
  declare(table, options.special_tokens);
  table.add("data.bleu_tokenizer",
            options.bleu_tokenizer,
            "sacreBLEU tokenizer of BLEU: 13a, char (each character, for languages without "
            "spaces), zh (each Chinese character, 13a for the rest) or none (words between spaces)",
            {{"13a", BleuTokens::thirteen_a},
             {"char", BleuTokens::characters},
             {"zh", BleuTokens::chinese},
             {"none", BleuTokens::white_space}},
            only_with(is("run.task", {"translation"})));
  declare_ids(table, options);
  declare_order(table, options);
  table.add(
      "data.global_batch_size",
      options.batch,
      "global batch size: number of sequences per step, over all data-parallel ranks; a multiple "
      "of "
      "parallel.data_parallel_size. A text is cut into as many streams, which each step continues, "
      "unless data.shuffle, data.documents.reset_attention_mask or weights in data.train have it "
      "read by documents",
      between(1, 1 << 24));
  table.add("data.seq_length",
            options.segment,
            "sequence length in tokens",
            between(1, std::int64_t{1} << 36));
  table.add("data.prefetch_factor",
            options.read_ahead,
            "number of batches loaded in advance",
            between(1, 1024));
  declare(table, options.buckets);
  declare_rollouts(table, options.rollouts);
  declare(table, options.sequence_level);
  declare(table, options.documents);
}

std::string unread_document_key(const DataOptions& options, std::string_view key) {
  if (options.format != DataFormat::text)
    return fmt::format("data.format is {}",
                       options.format == DataFormat::images ? "images" : "tokens");
  if (key == "data.documents.text_field" && all_are_json_lines(options, false))
    return "no file of data.train, data.validation and data.test has a JSON object with that field "
           "in its first line";
  if (key == "data.documents.sample_by" && all_are_json_lines(options, true))
    return "all files have JSON lines, and each line is a document";
  if (key == "data.documents.end_token" && options.documents.boundary == DocumentBoundary::none &&
      all_are_json_lines(options, false))
    return "data.documents.sample_by is none, and files have no document ends; set "
           "data.documents.sample_by to document, paragraph or line";
  return "";
}

std::string validate_end_token(const DataOptions& options) {
  const bool has_documents =
      options.format == DataFormat::text &&
      (options.documents.boundary != DocumentBoundary::none || all_are_json_lines(options, true));
  if (!options.documents.end_of_text || !has_documents) return "";
  const std::string& token = *options.documents.end_of_text;
  // A tokenizer may have these words as tokens, which end no document.
  if (token == "true" || token == "false")
    return fmt::format(
        "data.documents.end_token: expected a token or its id, found {}; set it to a token, such "
        "as \"<|endoftext|>\", or to none",
        token);
  const bool is_bytes = options.tokenizer == TokenizerKind::bytes;
  if (!is_bytes && options.tokenizer != TokenizerKind::characters) return "";
  std::int64_t id = -1;
  const char* const last = token.data() + token.size();
  const auto [end, error] = std::from_chars(token.data(), last, id);
  if (error == std::errc() && end == last && id >= 0 && (!is_bytes || id < 256)) return "";
  return fmt::format(
      "data.documents.end_token: expected an id{} (data.tokenizer.type: {} does not support token "
      "names), found {}",
      is_bytes ? " from 0 to 255" : "",
      name_of(options.tokenizer),
      quote(token));
}

std::string validate_tokenizer_type(const DataOptions& options) {
  const bool trains_json =
      trains_tokenizer(options) && options.tokenizer == TokenizerKind::tokenizer_json;
  const bool is_of_json = options.tokenizer_kind == SentencePieceModelType::bpe ||
                          options.tokenizer_kind == SentencePieceModelType::word_pieces;
  if (trains_json && !is_of_json)
    return fmt::format(
        "data.tokenizer.type: huggingface requires data.tokenizer.model_type bpe or wordpiece, "
        "found {}; set it, or set data.tokenizer.model to an existing tokenizer",
        name_of(options.tokenizer_kind));
  if (trains_tokenizer(options) && !trains_json &&
      options.tokenizer_kind == SentencePieceModelType::word_pieces)
    return "data.tokenizer.model_type: wordpiece requires data.tokenizer.type: huggingface, found "
           "sentencepiece";
  return "";
}

bool trains_tokenizer(const DataOptions& options) {
  const bool is_of_subwords = options.tokenizer == TokenizerKind::sentencepiece ||
                              options.tokenizer == TokenizerKind::tokenizer_json;
  return is_of_subwords && options.tokenizer_model.empty() && !options.saved_tokenizer;
}

Tokenizer make_tokenizer(const DataOptions& options, const ProgressCallback& listener) {
  if (options.tokenizer == TokenizerKind::bytes) return {};
  if (options.tokenizer == TokenizerKind::ids) return Tokenizer::ids(options.vocabulary);
  if (options.saved_tokenizer && options.tokenizer != TokenizerKind::characters)
    return *options.saved_tokenizer;
  if (trains_tokenizer(options))
    throw DataError(
        "{}: only longspan train trains a subword model; set data.tokenizer.model to an existing "
        "one",
        options.train.describe());
  if (options.tokenizer == TokenizerKind::tokenizer_json)
    return Tokenizer::from_huggingface(read_json_tokenizer(options.tokenizer_model));
  if (options.tokenizer == TokenizerKind::sentencepiece)
    return Tokenizer::subwords(read_subword_model(options.tokenizer_model));
  std::vector<Tokenizer> found;
  for (const ConfigPath& path : files_of(options.train)) {
    auto text = open_text(path);
    found.push_back(is_plain_text(*text, options.documents)
                        ? Tokenizer::characters_of(*text, options.unknown, listener)
                        : characters_of_documents(
                              std::move(text), options.documents, options.unknown, listener));
  }
  const Tokenizer all =
      found.size() == 1 ? found.front() : characters_of_all(found, options.unknown);
  return options.saved_tokenizer && has_characters(*options.saved_tokenizer, all)
             ? *options.saved_tokenizer
             : all;
}

std::int64_t configured_vocabulary(const DataOptions& options) {
  if (options.saved_tokenizer) return 0;
  if (options.tokenizer == TokenizerKind::bytes) return Tokenizer().vocabulary();
  // A model of characters may be smaller.
  const bool is_exact =
      trains_tokenizer(options) && options.tokenizer_kind != SentencePieceModelType::characters;
  return is_exact || options.tokenizer == TokenizerKind::ids ? options.vocabulary : 0;
}

std::int64_t planned_vocabulary(const DataOptions& options, const ProgressCallback& listener) {
  return trains_tokenizer(options) ? options.vocabulary
                                   : make_tokenizer(options, listener).vocabulary();
}

}  // namespace longspan
