#include "framework/data/data_options.h"

#include <algorithm>
#include <filesystem>

#include "framework/core/input_file.h"
#include "framework/core/options.h"
#include "framework/core/utf8.h"
#include "framework/data/document_text.h"
#include "framework/data/path_pattern.h"
#include "framework/data/subword_training.h"
#include "framework/data/text_input.h"
#include "framework/data/tokenizer_file.h"

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
        for (const NamedPath& path : files_matching(part.path)) {
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
    return fmt::format("data.tokenizer is {}", name_of(options.tokenizer));
  if (trains && options.starts_with_saved) return "training.start_from gives the tokenizer";
  return trains && !options.tokenizer_model.empty() ? "data.tokenizer_model gives a model" : "";
}

void declare_subwords(OptionTable& table, DataOptions& options) {
  table.add("data.tokenizer_model",
            options.tokenizer_model,
            "with data.tokenizer: sentencepiece, a model that is there already, a .model file; "
            "with tokenizer_json the file tokenizer.json, or a folder with that or with the files "
            "of a slow tokenizer, such as vocab.json and merges.txt or vocab.txt. Without it that "
            "of the checkpoint which the run continues or starts from (training.start_from) is "
            "used, and without one it is trained on data.train and kept in the run's directory");
  table.add("data.tokenizer_kind",
            options.tokenizer_kind,
            "the kind of model that is trained: of sentencepiece unigram, bpe (byte pairs), char "
            "or word; of tokenizer_json bpe (of bytes, cut as GPT-2 does) or wordpiece (as BERT "
            "has it, of small letters)",
            {{"unigram", SubwordKind::unigram},
             {"bpe", SubwordKind::bpe},
             {"char", SubwordKind::characters},
             {"word", SubwordKind::words},
             {"wordpiece", SubwordKind::word_pieces}});
  table.add("data.vocabulary",
            options.vocabulary,
            "ids of the model that is trained; of sentencepiece 259 of them are the bytes and what "
            "stands for unknown text and for a sentence's ends, and there are fewer with char when "
            "the text has fewer. With data.tokenizer: ids, how many ids there are, none of which a "
            "file may exceed",
            between(1, most_subword_vocabulary));
  table.add("data.token_cache",
            options.token_cache,
            "with data.tokenizer: sentencepiece or tokenizer_json, the folder for the tokens of "
            "texts, which are encoded once; without it tokens/ in the run's directory");
  table.warn("data.tokenizer_model", [&options] { return unread(options, false); });
  table.warn("data.tokenizer_kind", [&options] { return unread(options, true); });
  table.warn("data.vocabulary", [&options] {
    return options.tokenizer == TokenizerKind::ids ? "" : unread(options, true);
  });
  table.warn("data.token_cache", [&options]() -> std::string {
    if (reads_ids(options)) return "data.format is tokens";
    return may_have_token_file(options) ? "" : unread(options, false);
  });
  table.check({"data.vocabulary", "data.tokenizer"}, [&options]() -> std::string {
    if (!trains_tokenizer(options) || options.vocabulary >= least_subword_vocabulary) return "";
    return fmt::format("data.vocabulary: found {}; a model of subwords has at least {} ids",
                       options.vocabulary,
                       least_subword_vocabulary);
  });
}

// Files of tokens that were made already.
void declare_ids(OptionTable& table, DataOptions& options) {
  table.add("data.token_bits",
            options.token_bits,
            "with data.format: tokens, the bits of an id, which is unsigned and little endian: 16, "
            "32, 64, or auto: the bits of an .npy header or Megatron-LM's .idx, else 16 where the "
            "vocabulary has at most 65536 ids, else 32",
            {{"auto", IdBits::fitting},
             {"16", IdBits::sixteen},
             {"32", IdBits::thirty_two},
             {"64", IdBits::sixty_four}});
  table.warn("data.token_bits", [&options]() -> std::string {
    return reads_ids(options) ? "" : "data.format is not tokens";
  });
  table.check({"data.tokenizer", "data.format"}, [&options]() -> std::string {
    if (!reads_ids(options) || options.tokenizer == TokenizerKind::ids) return "";
    const bool is_model = options.tokenizer == TokenizerKind::sentencepiece ||
                          options.tokenizer == TokenizerKind::tokenizer_json;
    if (is_model && !options.tokenizer_model.empty()) return "";
    return "data.format: tokens has ids that a tokenizer made before: set data.tokenizer to ids, "
           "with data.vocabulary, or to sentencepiece or tokenizer_json, with data.tokenizer_model";
  });
  table.check({"data.vocabulary", "data.tokenizer"}, [&options, &table]() -> std::string {
    if (options.tokenizer != TokenizerKind::ids || table.is_given("data.vocabulary")) return "";
    return "data.vocabulary is not set; data.tokenizer: ids needs to know how many ids there are";
  });
}

// How documents of a language model's texts are read.
void declare_order(OptionTable& table, DataOptions& options) {
  table.add("data.shuffle",
            options.shuffle,
            "with run.task: language_model, read the documents of data.train in an order by chance "
            "that is another in each epoch; otherwise as they stand");
  table.add("data.documents_apart",
            options.apart,
            "with run.task: language_model, documents that stand in one row neither see nor "
            "predict each other; otherwise a row is one text. A model is then measured so too");
  table.add("data.piece",
            options.piece,
            "with data.shuffle, data.documents_apart or weights in data.train, the tokens of a "
            "piece of a text that has no documents (data.documents): pieces take their place",
            between(2, std::int64_t{1} << 40));
  table.warn("data.piece", [&options]() -> std::string {
    return options.reads_documents() ? ""
                                     : "neither data.shuffle nor data.documents_apart is set, and "
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
  table.add("reinforcement.discount",
            options.discount,
            "what a reward is worth for each step that it lies ahead; 0.997 and more for what is "
            "rewarded late",
            between(0.0, 1.0));
  table.add("reinforcement.lambda",
            options.lambda,
            "of generalized advantages: 0 trusts the values, 1 the rewards",
            between(0.0, 1.0));
  table.add("reinforcement.epochs",
            options.epochs,
            "times that what the model did in data.segment steps is learnt from",
            between(1, 1000));
  table.add("reinforcement.minibatches",
            options.minibatches,
            "groups that the environments of data.batch are learnt from in, each a step of "
            "training: a rollout is epochs x minibatches steps",
            between(1, 1 << 20));
  table.add("reinforcement.greedy",
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
      "what data.train, data.validation and data.test are: text; with run.task: "
      "language_model tokens, files of ids, as nanoGPT and Megatron-LM (.bin) and NumPy (.npy) "
      "write them; with run.task: classification or pixels images, whose pixels (0 to 255) "
      "are the tokens: each an IDX file, as MNIST has them, with that of its labels in "
      "data.train_target and so on, or a folder that has a folder of PNG files for each "
      "class. run.task: pixels is of images, and of IDX files without labels too",
      {{"text", DataFormat::text}, {"images", DataFormat::images}, {"tokens", DataFormat::tokens}},
      // A model does not know whether its tokens were made before.
      fixes_weights(
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
            "with model.guide: alignments, a file that has for each line of data.train its links, "
            "like 0-0 1-2: a token of the source and one of the target, counted from 0, as "
            "data.tokenizer cuts them");
  table.add("data.tag_columns",
            options.tag_columns,
            "with run.task: tagging, what a line has: a word, a tab and its tag (two), or the ten "
            "columns of CoNLL-U, whose universal (upos) or own (xpos) part of speech is the tag",
            {{"two", TagColumns::two}, {"upos", TagColumns::upos}, {"xpos", TagColumns::xpos}});
  table.add(
      "data.tokenizer",
      options.tokenizer,
      "what a token is: a byte (256 ids, any file), a character of UTF-8 text (the ids are "
      "the characters of data.train), a piece of UTF-8 text by a model of SentencePiece, or "
      "what a tokenizer.json of others makes of it (tokenizer_json); or one of "
      "data.vocabulary ids, whose text is not known (ids): with data.format: tokens, or with "
      "run.task: translation, classification and tagging, where a text is numbers with blanks "
      "between them",
      {{"bytes", TokenizerKind::bytes},
       {"characters", TokenizerKind::characters},
       {"sentencepiece", TokenizerKind::sentencepiece},
       {"tokenizer_json", TokenizerKind::tokenizer_json},
       {"ids", TokenizerKind::ids}},
      fixes_weights());
  table.add("data.unknown",
            options.unknown,
            "with data.tokenizer: characters, give characters that data.train lacks one id, "
            "<unknown>; otherwise such a character is an error. Measured losses count, beside the "
            "probability of <unknown>, which of all such characters it is",
            fixes_weights());
  table.warn("data.unknown", [&options]() -> std::string {
    return options.tokenizer == TokenizerKind::characters ? "" : "data.tokenizer is not characters";
  });
  declare_subwords(table, options);
  declare(table, options.sentence, options.tokenizer);
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
  table.add("data.batch",
            options.batch,
            "global number of streams the text is cut into, over all data ranks: the batch of one "
            "step; a multiple of parallel.data",
            between(1, 1 << 24));
  table.add("data.segment",
            options.segment,
            "tokens of each stream in one step",
            between(1, std::int64_t{1} << 36));
  table.add("data.read_ahead",
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
  if (key == "data.text_field" && all_are_json_lines(options, false))
    return "no file of data.train, data.validation and data.test has an object of JSON with that "
           "field in its first line";
  if (key == "data.documents" && all_are_json_lines(options, true))
    return "all files have JSON lines, each of which is a document";
  if (key == "data.end_of_text" && options.documents.boundary == DocumentBoundary::none &&
      all_are_json_lines(options, false))
    return "data.documents is none, so that texts have no documents to end";
  return "";
}

std::string tokenizer_kind_problem(const DataOptions& options) {
  const bool trains_json =
      trains_tokenizer(options) && options.tokenizer == TokenizerKind::tokenizer_json;
  const bool is_of_json = options.tokenizer_kind == SubwordKind::bpe ||
                          options.tokenizer_kind == SubwordKind::word_pieces;
  if (trains_json && !is_of_json)
    return fmt::format(
        "data.tokenizer: tokenizer_json without data.tokenizer_model, which names one that is "
        "there, trains one of data.tokenizer_kind bpe or wordpiece; it is {}",
        name_of(options.tokenizer_kind));
  if (trains_tokenizer(options) && !trains_json &&
      options.tokenizer_kind == SubwordKind::word_pieces)
    return "data.tokenizer_kind: wordpiece is of data.tokenizer: tokenizer_json; it is "
           "sentencepiece";
  return "";
}

bool trains_tokenizer(const DataOptions& options) {
  const bool is_of_subwords = options.tokenizer == TokenizerKind::sentencepiece ||
                              options.tokenizer == TokenizerKind::tokenizer_json;
  return is_of_subwords && options.tokenizer_model.empty() && !options.saved_tokenizer;
}

Tokenizer make_tokenizer(const DataOptions& options, const ScanListener& listener) {
  if (options.tokenizer == TokenizerKind::bytes) return {};
  if (options.tokenizer == TokenizerKind::ids) return Tokenizer::ids(options.vocabulary);
  if (options.saved_tokenizer && options.tokenizer != TokenizerKind::characters)
    return *options.saved_tokenizer;
  if (trains_tokenizer(options))
    throw DataError(
        "{}: its subword model is trained by longspan train; data.tokenizer_model names one that "
        "is there",
        options.train.told());
  if (options.tokenizer == TokenizerKind::tokenizer_json)
    return Tokenizer::of_package(read_json_tokenizer(options.tokenizer_model));
  if (options.tokenizer == TokenizerKind::sentencepiece)
    return Tokenizer::subwords(read_subword_model(options.tokenizer_model));
  std::vector<Tokenizer> found;
  for (const NamedPath& path : files_of(options.train)) {
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

std::int64_t planned_vocabulary(const DataOptions& options, const ScanListener& listener) {
  return trains_tokenizer(options) ? options.vocabulary
                                   : make_tokenizer(options, listener).vocabulary();
}

}  // namespace longspan
