#include "framework/data/data_options.h"

#include <algorithm>
#include <filesystem>

#include "framework/core/input_file.h"
#include "framework/core/utf8.h"
#include "framework/data/corpus/document_text.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/tokenization/subword_training.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/options/options.h"

namespace longspan {
namespace {

bool reads_ids(const DataOptions& options) { return options.format == DataFormat::tokens; }

// The texts of data.train, data.validation and data.test that can be opened and read again, some
// of very many: whoever reads them reports what is wrong with the others.
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

// Whether there are such texts, and all have JSON lines, or none has.
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

// Whether texts may be read from files of their tokens whatever the tokenizer is.
bool may_have_token_file(const DataOptions& options) {
  return options.documents.boundary != DocumentBoundary::none ||
         !std::ranges::all_of(texts_of(options), [&](const auto& file) {
           return is_plain_text(*file, options.documents);
         });
}

// Why a key of subwords is not read; of those of training, when a model is given.
std::string unread(const DataOptions& options, bool trains) {
  if (options.tokenizer != TokenizerKind::sentencepiece &&
      options.tokenizer != TokenizerKind::tokenizer_json)
    return fmt::format("data.tokenizer.type is {}", name_of(options.tokenizer));
  if (trains && options.starts_with_saved) return "training.init_from.path gives the tokenizer";
  return trains && !options.tokenizer_model.empty() ? "data.tokenizer.model gives a model" : "";
}

void declare_subwords(OptionTable& table, DataOptions& options) {
  table.add(
      "data.tokenizer.model",
      options.tokenizer_model,
      "with data.tokenizer.type: sentencepiece, a model that is there already, a .model file; "
      "with huggingface the file tokenizer.json, or a folder with that or with the files "
      "of a slow tokenizer, such as vocab.json and merges.txt or vocab.txt. Without it that "
      "of the checkpoint which the run continues or starts from (training.init_from.path) is "
      "used, and without one it is trained on data.train and kept in the run's directory");
  table.add("data.tokenizer.model_type",
            options.tokenizer_kind,
            "the kind of model that is trained: of sentencepiece unigram, bpe (byte pairs), char "
            "or word; of huggingface bpe (of bytes, cut as GPT-2 does) or wordpiece (as BERT "
            "has it, of small letters)",
            {{"unigram", SentencePieceModelType::unigram},
             {"bpe", SentencePieceModelType::bpe},
             {"char", SentencePieceModelType::characters},
             {"word", SentencePieceModelType::words},
             {"wordpiece", SentencePieceModelType::word_pieces}});
  table.add(
      "data.tokenizer.vocab_size",
      options.vocabulary,
      "ids of the model that is trained; of sentencepiece 259 of them are the bytes and what "
      "stands for unknown text and for a sentence's ends, and there are fewer with char when "
      "the text has fewer. With data.tokenizer.type: none, how many ids there are, none of which a "
      "file may exceed",
      between(1, most_subword_vocabulary));
  table.add("data.cache_dir",
            options.token_cache,
            "with data.tokenizer.type: sentencepiece or huggingface, the folder for the tokens of "
            "texts, which are encoded once; without it tokens/ in the run's directory");
  table.warn("data.tokenizer.model", [&options] { return unread(options, false); });
  table.warn("data.tokenizer.model_type", [&options] { return unread(options, true); });
  table.warn("data.tokenizer.vocab_size", [&options] {
    return options.tokenizer == TokenizerKind::ids ? "" : unread(options, true);
  });
  table.warn("data.cache_dir", [&options]() -> std::string {
    if (reads_ids(options)) return "data.format is tokens";
    return may_have_token_file(options) ? "" : unread(options, false);
  });
  table.check({"data.tokenizer.vocab_size", "data.tokenizer.type"}, [&options]() -> std::string {
    if (!trains_tokenizer(options) || options.vocabulary >= least_subword_vocabulary) return "";
    return fmt::format(
        "data.tokenizer.vocab_size: found {}; a model of subwords has at least {} ids",
        options.vocabulary,
        least_subword_vocabulary);
  });
}

// Files of tokens that were made already.
void declare_ids(OptionTable& table, DataOptions& options) {
  table.add("data.token_dtype",
            options.token_bits,
            "with data.format: tokens, the type of an id, which is little endian: uint16, uint32, "
            "uint64, or auto: that of an .npy header or Megatron-LM's .idx, else uint16 where the "
            "vocabulary has at most 65536 ids, else uint32",
            {{"auto", TokenDType::fitting},
             {"uint16", TokenDType::sixteen},
             {"uint32", TokenDType::thirty_two},
             {"uint64", TokenDType::sixty_four}});
  table.warn("data.token_dtype", [&options]() -> std::string {
    return reads_ids(options) ? "" : "data.format is not tokens";
  });
  table.check({"data.tokenizer.type", "data.format"}, [&options]() -> std::string {
    if (!reads_ids(options) || options.tokenizer == TokenizerKind::ids) return "";
    const bool is_model = options.tokenizer == TokenizerKind::sentencepiece ||
                          options.tokenizer == TokenizerKind::tokenizer_json;
    if (is_model && !options.tokenizer_model.empty()) return "";
    return "data.format: tokens has ids that a tokenizer made before: set data.tokenizer.type to "
           "none, with data.tokenizer.vocab_size, or to sentencepiece or huggingface, with "
           "data.tokenizer.model";
  });
  table.check(
      {"data.tokenizer.vocab_size", "data.tokenizer.type"}, [&options, &table]() -> std::string {
        if (options.tokenizer != TokenizerKind::ids || table.is_given("data.tokenizer.vocab_size"))
          return "";
        return "data.tokenizer.vocab_size is not set; data.tokenizer.type: none needs to know how "
               "many ids there are";
      });
}

// How documents of a language model's texts are read.
void declare_order(OptionTable& table, DataOptions& options) {
  table.add(
      "data.shuffle",
      options.shuffle,
      "with run.task: language_modeling, read the documents of data.train in an order by chance "
      "that is another in each epoch; otherwise as they stand");
  table.add("data.documents.reset_attention_mask",
            options.reset_attention_mask,
            "with run.task: language_modeling, documents that stand in one row neither see nor "
            "predict each other; otherwise a row is one text. A model is then measured so too");
  table.add(
      "data.documents.chunk_length",
      options.piece,
      "with data.shuffle, data.documents.reset_attention_mask or weights in data.train, the tokens "
      "of a piece of a text that has no documents (data.documents.sample_by): pieces take their "
      "place",
      between(2, std::int64_t{1} << 40));
  table.warn("data.documents.chunk_length", [&options]() -> std::string {
    return options.reads_documents()
               ? ""
               : "neither data.shuffle nor data.documents.reset_attention_mask is set, and "
                 "no weight in data.train";
  });
  table.check({"data.train"}, [&options]() -> std::string {
    const auto& parts = options.train.parts;
    const auto weighted = std::ranges::count_if(
        parts, [](const WeightedPath& part) { return part.weight.has_value(); });
    if (weighted == 0 || weighted == std::ssize(parts)) return "";
    return fmt::format("data.train: {} of {} paths have a weight; give one to each, or to none",
                       weighted,
                       parts.size());
  });
  for (const PathList* list : {&options.validation, &options.test})
    table.check(
        {list == &options.validation ? "data.validation" : "data.test"},
        [list,
         key = list == &options.validation ? "data.validation" : "data.test"]() -> std::string {
          if (!list->is_weighted()) return "";
          return fmt::format("{}: found a weight; all of it is measured", key);
        });
}

void declare_rollouts(OptionTable& table, RolloutOptions& options) {
  table.add("ppo.gamma",
            options.discount,
            "what a reward is worth for each step that it lies ahead; 0.997 and more for what is "
            "rewarded late",
            between(0.0, 1.0));
  table.add("ppo.gae_lambda",
            options.lambda,
            "of generalized advantages: 0 trusts the values, 1 the rewards",
            between(0.0, 1.0));
  table.add("ppo.num_epochs",
            options.epochs,
            "times that what the model did in data.seq_length steps is learnt from",
            between(1, 1000));
  table.add(
      "ppo.num_minibatches",
      options.minibatches,
      "groups that the environments of data.global_batch_size are learnt from in, each a step of "
      "training: a rollout is epochs x minibatches steps",
      between(1, 1 << 20));
  table.add("ppo.deterministic_eval",
            options.greedy,
            "validation and longspan evaluate take the likeliest actions; otherwise they are drawn "
            "as in training");
}

Tokenizer characters_of_all(const std::vector<Tokenizer>& tokenizers, bool with_unknown) {
  std::vector<char32_t> found;
  for (const Tokenizer& tokenizer : tokenizers) {
    for (std::int64_t id = with_unknown ? 1 : 0; id < tokenizer.vocabulary(); ++id)
      found.push_back(decode_utf8(tokenizer.decode({&id, 1})).code_point);
  }
  return Tokenizer::characters(found, with_unknown);
}

// Whether a tokenizer of characters has those of another, and both or neither <unknown>.
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
      "what data.train, data.validation and data.test are: text; with run.task: language_modeling "
      "tokens, files of ids, as nanoGPT and Megatron-LM (.bin) and NumPy (.npy) write them; with "
      "run.task: classification or image_generation images, whose pixels (0 to 255) are the "
      "tokens: each an IDX file, as MNIST has them, with that of its labels in data.train_target "
      "and so on, or a folder that has a folder of PNG files for each class. run.task: "
      "image_generation is of images, and of IDX files without labels too",
      {{"text", DataFormat::text}, {"images", DataFormat::images}, {"tokens", DataFormat::tokens}},
      // A model does not know whether its tokens were made before.
      affects_weights(
          [](const std::string& format) { return format == "tokens" ? "text" : format; }));
  table.add("data.train",
            options.train,
            "file to learn from. A language model learns from several too: a list of paths, which "
            "may have *, ? and [...] as in a shell; or {path: PATH, weight: NUMBER} of each, which "
            "mixes their documents so that tokens are read in the proportion of the weights",
            required(),
            not_empty());
  table.add("data.validation",
            options.validation,
            "text file on which the loss is measured during training; none when empty. Of a list "
            "of files the loss of each is measured too");
  table.add("data.test", options.test, "text file for the last measurement; none when empty");
  table.add(
      "data.train_target",
      options.train_target,
      "with run.task: translation, what is to be made of each line of data.train: a file of as "
      "many lines; with data.format: images, the labels of an IDX file");
  table.add("data.validation_target", options.validation_target, "likewise of data.validation");
  table.add("data.test_target", options.test_target, "likewise of data.test");
  table.add("data.train_alignments",
            options.train_alignments,
            "with model.guided_attention.type: alignment, a file that has for each line of "
            "data.train its links, like 0-0 1-2: a token of the source and one of the target, "
            "counted from 0, as data.tokenizer.type cuts them");
  table.add(
      "data.tag_format",
      options.tag_columns,
      "with run.task: tagging, what a line has: a word, a tab and its tag (tsv), or the ten "
      "columns of CoNLL-U, whose universal (conllu_upos) or own (conllu_xpos) part of speech is "
      "the tag",
      {{"tsv", TagColumns::two},
       {"conllu_upos", TagColumns::upos},
       {"conllu_xpos", TagColumns::xpos}});
  table.add(
      "data.tokenizer.type",
      options.tokenizer,
      "what a token is: a byte (256 ids, any file), a character of UTF-8 text (the ids are the "
      "characters of data.train), a piece of UTF-8 text by a model of SentencePiece, or what a "
      "tokenizer.json of others makes of it (huggingface); or one of data.tokenizer.vocab_size "
      "ids, whose text is not known (none): with data.format: tokens, or with run.task: "
      "translation, classification and tagging, where a text is numbers with blanks between them",
      {{"byte", TokenizerKind::bytes},
       {"char", TokenizerKind::characters},
       {"sentencepiece", TokenizerKind::sentencepiece},
       {"huggingface", TokenizerKind::tokenizer_json},
       {"none", TokenizerKind::ids}},
      affects_weights());
  table.add("data.tokenizer.allow_unk",
            options.unknown,
            "with data.tokenizer.type: char, give characters that data.train lacks one id, "
            "<unknown>; otherwise such a character is an error. Measured losses count, beside the "
            "probability of <unknown>, which of all such characters it is",
            affects_weights());
  table.warn("data.tokenizer.allow_unk", [&options]() -> std::string {
    return options.tokenizer == TokenizerKind::characters ? "" : "data.tokenizer.type is not char";
  });
  declare_subwords(table, options);
  declare(table, options.special_tokens, options.tokenizer);
  table.add("data.bleu_tokenizer",
            options.bleu_tokenizer,
            "sacreBLEU's tokenizer for BLEU: 13a; char, each character, for languages without "
            "spaces; zh, each Chinese character, and 13a for the rest; none, words between spaces. "
            "Only with run.task: translation",
            {{"13a", BleuTokens::thirteen_a},
             {"char", BleuTokens::characters},
             {"zh", BleuTokens::chinese},
             {"none", BleuTokens::white_space}});
  declare_ids(table, options);
  declare_order(table, options);
  table.add("data.global_batch_size",
            options.batch,
            "global number of streams the text is cut into, over all data ranks: the batch of one "
            "step; a multiple of parallel.data_parallel_size",
            between(1, 1 << 24));
  table.add("data.seq_length",
            options.segment,
            "tokens of each stream in one step",
            between(1, std::int64_t{1} << 36));
  table.add("data.prefetch_factor",
            options.read_ahead,
            "batches that are read before they are asked for",
            between(1, 1024));
  declare(table, options.buckets);
  declare_rollouts(table, options.rollouts);
  declare(table, options.documents);
}

std::string unread_document_key(const DataOptions& options, std::string_view key) {
  if (options.format != DataFormat::text)
    return fmt::format("data.format is {}",
                       options.format == DataFormat::images ? "images" : "tokens");
  if (key == "data.documents.text_field" && all_are_json_lines(options, false))
    return "no file of data.train, data.validation and data.test has an object of JSON with that "
           "field in its first line";
  if (key == "data.documents.sample_by" && all_are_json_lines(options, true))
    return "all files have JSON lines, each of which is a document";
  if (key == "data.documents.end_token" && options.documents.boundary == DocumentBoundary::none &&
      all_are_json_lines(options, false))
    return "data.documents.sample_by is none, so that texts have no documents to end";
  return "";
}

std::string tokenizer_kind_problem(const DataOptions& options) {
  const bool trains_json =
      trains_tokenizer(options) && options.tokenizer == TokenizerKind::tokenizer_json;
  const bool is_of_json = options.tokenizer_kind == SentencePieceModelType::bpe ||
                          options.tokenizer_kind == SentencePieceModelType::word_pieces;
  if (trains_json && !is_of_json)
    return fmt::format(
        "data.tokenizer.type: huggingface without data.tokenizer.model, which names one that is "
        "there, trains one of data.tokenizer.model_type bpe or wordpiece; it is {}",
        name_of(options.tokenizer_kind));
  if (trains_tokenizer(options) && !trains_json &&
      options.tokenizer_kind == SentencePieceModelType::word_pieces)
    return "data.tokenizer.model_type: wordpiece is of data.tokenizer.type: huggingface; it is "
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
        "{}: its subword model is trained by longspan train; data.tokenizer.model names one that "
        "is there",
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

std::int64_t planned_vocabulary(const DataOptions& options, const ProgressCallback& listener) {
  return trains_tokenizer(options) ? options.vocabulary
                                   : make_tokenizer(options, listener).vocabulary();
}

}  // namespace longspan
