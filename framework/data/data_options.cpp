#include "framework/data/data_options.h"

#include "framework/core/options.h"
#include "framework/data/mapped_file.h"
#include "framework/data/subword_training.h"
#include "framework/data/tokenizer_file.h"

namespace longspan {
namespace {

// Why a key of subwords is not read; of those of training, when a model is given.
std::string unread(const DataOptions& options, bool trains) {
  if (options.tokenizer != TokenizerKind::sentencepiece &&
      options.tokenizer != TokenizerKind::tokenizer_json)
    return fmt::format("data.tokenizer is {}", name_of(options.tokenizer));
  return trains && !options.tokenizer_model.empty() ? "data.tokenizer_model gives a model" : "";
}

void declare_subwords(OptionTable& table, DataOptions& options) {
  table.add("data.tokenizer_model",
            options.tokenizer_model,
            "with data.tokenizer: sentencepiece, a model that is there already, a .model file; "
            "with tokenizer_json the file tokenizer.json, or a folder with that or with vocab.json "
            "and merges.txt. Without it one is trained on data.train and kept in the run's "
            "directory");
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
            "the text has fewer",
            between(least_subword_vocabulary, most_subword_vocabulary));
  table.add("data.token_cache",
            options.token_cache,
            "with data.tokenizer: sentencepiece or tokenizer_json, the folder for the tokens of "
            "texts, which are encoded once; without it tokens/ in the run's directory");
  for (const char* key : {"data.tokenizer_model", "data.token_cache"})
    table.warn(key, [&options] { return unread(options, false); });
  for (const char* key : {"data.tokenizer_kind", "data.vocabulary"})
    table.warn(key, [&options] { return unread(options, true); });
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

}  // namespace

void declare(OptionTable& table, DataOptions& options) {
  table.add("data.format",
            options.format,
            "with run.task: classification or pixels, what data.train, data.validation and "
            "data.test are: text, or images, whose pixels (0 to 255) are the tokens: each an IDX "
            "file, as MNIST has them, with that of its labels in data.train_target and so on, or a "
            "folder that has a folder of PNG files for each class. run.task: pixels is of images, "
            "and of IDX files without labels too",
            {{"text", DataFormat::text}, {"images", DataFormat::images}},
            fixes_weights());
  table.add("data.train", options.train, "text file to learn from", required(), not_empty());
  table.add("data.validation",
            options.validation,
            "text file on which the loss is measured during training; none when empty");
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
  table.add("data.tokenizer",
            options.tokenizer,
            "what a token is: a byte (256 ids, any file), a character of UTF-8 text (the ids are "
            "the characters of data.train), a piece of UTF-8 text by a model of SentencePiece, or "
            "what a tokenizer.json of others makes of it (tokenizer_json)",
            {{"bytes", TokenizerKind::bytes},
             {"characters", TokenizerKind::characters},
             {"sentencepiece", TokenizerKind::sentencepiece},
             {"tokenizer_json", TokenizerKind::tokenizer_json}},
            fixes_weights());
  table.add("data.unknown",
            options.unknown,
            "with data.tokenizer: characters, give characters that data.train lacks one id, "
            "<unknown>; otherwise such a character is an error. Measured losses count, beside the "
            "probability of <unknown>, which of all such characters it is",
            fixes_weights());
  declare_subwords(table, options);
  table.check({"data.tokenizer", "data.tokenizer_kind"}, [&options]() -> std::string {
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
  });
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
}

bool trains_tokenizer(const DataOptions& options) {
  const bool is_of_subwords = options.tokenizer == TokenizerKind::sentencepiece ||
                              options.tokenizer == TokenizerKind::tokenizer_json;
  return is_of_subwords && options.tokenizer_model.empty();
}

Tokenizer make_tokenizer(const DataOptions& options, const ScanListener& listener) {
  if (options.tokenizer == TokenizerKind::bytes) return {};
  if (trains_tokenizer(options))
    throw DataError(
        "{}: its subword model is trained by longspan train; data.tokenizer_model names one that "
        "is there",
        options.train.told());
  if (options.tokenizer == TokenizerKind::tokenizer_json)
    return Tokenizer::of_package(read_json_tokenizer(options.tokenizer_model));
  if (options.tokenizer == TokenizerKind::sentencepiece)
    return Tokenizer::subwords(read_subword_model(options.tokenizer_model));
  return Tokenizer::characters_of(MappedFile(options.train), options.unknown, listener);
}

std::int64_t planned_vocabulary(const DataOptions& options, const ScanListener& listener) {
  return trains_tokenizer(options) ? options.vocabulary
                                   : make_tokenizer(options, listener).vocabulary();
}

}  // namespace longspan
