// The section `data` of a configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/config_path.h"
#include "framework/data/batching/bucket_options.h"
#include "framework/data/corpus/corpus.h"
#include "framework/data/corpus/document_form.h"
#include "framework/data/corpus/stream_reader.h"
#include "framework/data/examples/tagged_words.h"
#include "framework/data/rollout_options.h"
#include "framework/data/token_id_file.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/data/tokenization/special_token_ids.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/metrics/bleu.h"

namespace longspan {

class OptionTable;

// What the files of data.train, data.validation and data.test hold.
enum class DataFormat : std::uint8_t { text, images, tokens };

struct DataOptions {
  DataFormat format = DataFormat::text;  // data.format
  PathList train;                        // data.train: the text to learn
  PathList validation;  // data.validation: the text that `train` measures itself on
  PathList test;        // data.test: the text for the last measurement
  // Of pairs the other sides, line by line; of images in IDX the files of their labels.
  ConfigPath train_target;                         // data.train_target
  ConfigPath validation_target;                    // data.validation_target
  ConfigPath test_target;                          // data.test_target
  ConfigPath train_alignments;                     // data.train_alignments: of pairs (alignments.h)
  TagColumns tag_columns = TagColumns::two;        // data.tag_format: of tagged words
  TokenizerKind tokenizer = TokenizerKind::bytes;  // data.tokenizer.type
  // data.tokenizer.allow_unk: characters that the training text lacks have an id
  bool unknown = false;
  ConfigPath tokenizer_model;  // data.tokenizer.model: a file; none: trained on data.train
  // Of the checkpoint that the run continues or starts from; replaces one that would be trained.
  std::optional<Tokenizer> saved_tokenizer = {};
  bool starts_with_saved = false;  // that checkpoint is another run's
  // data.tokenizer.model_type: of what is trained
  SentencePieceModelType tokenizer_kind = SentencePieceModelType::unigram;
  std::int64_t vocabulary = 8192;  // data.tokenizer.vocab_size: likewise; of ids how many there are
  TokenDType token_bits = TokenDType::fitting;  // data.token_dtype: of files of ids
  SpecialTokenNames special_tokens = {};        // of pairs: the keys are in special_token_ids.h
  BleuTokens bleu_tokenizer = BleuTokens::thirteen_a;  // data.bleu_tokenizer: of pairs
  ConfigPath token_cache;       // data.cache_dir: a folder; none: one in the run's directory
  std::int64_t batch = 8;       // data.global_batch_size: global streams
  std::int64_t segment = 256;   // data.seq_length: tokens of a stream in one step
  std::int64_t read_ahead = 2;  // data.prefetch_factor: batches

  bool shuffle = false;  // data.shuffle: documents, by the run's seed and the epoch
  // data.documents.reset_attention_mask: they neither see nor predict each other
  bool reset_attention_mask = false;
  std::int64_t piece = 65536;  // data.documents.chunk_length: tokens, of a text without documents

  // Whether data.train is read document by document, and not as streams of the whole.
  bool reads_documents() const { return shuffle || reset_attention_mask || train.is_weighted(); }

  BucketOptions buckets = {};     // of data that are no streams
  RolloutOptions rollouts = {};   // of environments that the model acts in
  DocumentFormat documents = {};  // of texts

  StreamLayout layout() const { return {batch, segment}; }
};

void declare(OptionTable& table, DataOptions& options);

// Why data.documents.sample_by, data.documents.text_field or data.documents.end_token has no
// effect; "" where it has. Looks at the beginnings of the files.
std::string unread_document_key(const DataOptions& options, std::string_view key);

// Whether the run trains a model of subwords on data.train (text_files.h), which it does where no
// model is named and no checkpoint has one.
bool trains_tokenizer(const DataOptions& options);

// What keeps a tokenizer of data.tokenizer.model_type from being trained, as a sentence; empty
// where nothing does.
std::string tokenizer_kind_problem(const DataOptions& options);

// The tokenizer that the options ask for; characters are those of data.train, which is read for
// them, or the saved ones where these have all of them. Throws DataError, also for one that a run
// trains (text_files.h).
Tokenizer make_tokenizer(const DataOptions& options, const ProgressCallback& listener = {});

// How many ids it will have; of a subword model that is still to be trained, at most. Throws
// DataError.
std::int64_t planned_vocabulary(const DataOptions& options, const ProgressCallback& listener = {});

}  // namespace longspan
