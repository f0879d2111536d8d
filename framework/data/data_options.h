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
#include "framework/data/sequence_level_options.h"
#include "framework/data/token_id_file.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/data/tokenization/special_tokens.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/metrics/bleu.h"

namespace longspan {

class OptionTable;

// Content of the files of data.train, data.validation and data.test.
enum class DataFormat : std::uint8_t { text, images, tokens };

struct DataOptions {
  DataFormat format = DataFormat::text;  // data.format
  PathList train;                        // data.train: training data
  PathList validation;                   // data.validation: data that `train` evaluates on
  PathList test;                         // data.test: data of the final evaluation
  // Targets of pairs, line by line; label files of IDX images.
  ConfigPath train_target;       // data.train_target
  ConfigPath validation_target;  // data.validation_target
  ConfigPath test_target;        // data.test_target
  ConfigPath train_alignments;   // data.train_alignments: of pairs (parallel_examples.h)
  TagColumns tag_columns = TagColumns::two;        // data.tag_format: for tagged words
  TokenizerKind tokenizer = TokenizerKind::bytes;  // data.tokenizer.type
  // data.tokenizer.allow_unk: characters absent from the training text map to an unknown id
  bool unknown = false;
  ConfigPath tokenizer_model;  // data.tokenizer.model: a file; empty: trained on data.train
  // Tokenizer of the checkpoint that the run resumes or starts from, used instead of training one.
  std::optional<Tokenizer> saved_tokenizer = {};
  bool starts_with_saved = false;  // that checkpoint is of another run
  // data.tokenizer.model_type: for a trained model
  SentencePieceModelType tokenizer_kind = SentencePieceModelType::unigram;
  std::int64_t vocabulary = 8192;  // data.tokenizer.vocab_size: trained size; number of ids
  TokenDType token_bits = TokenDType::fitting;         // data.token_dtype: of token id files
  SpecialTokenNames special_tokens = {};               // for pairs: keys in special_tokens.h
  BleuTokens bleu_tokenizer = BleuTokens::thirteen_a;  // data.bleu_tokenizer: of pairs
  ConfigPath token_cache;       // data.cache_dir; empty: one in the run's directory
  std::int64_t batch = 8;       // data.global_batch_size: global streams
  std::int64_t segment = 256;   // data.seq_length: tokens of a stream per step
  std::int64_t read_ahead = 2;  // data.prefetch_factor: batches

  bool shuffle = false;  // data.shuffle: documents, by the run's seed and the epoch
  // data.documents.reset_attention_mask: no attention or targets across documents
  bool reset_attention_mask = false;
  std::int64_t piece = 65536;  // data.documents.chunk_length: tokens, for text without documents

  // Returns whether data.train is read by documents rather than as contiguous streams.
  bool reads_documents() const { return shuffle || reset_attention_mask || train.is_weighted(); }

  BucketOptions buckets = {};                // for data that is not streamed
  RolloutOptions rollouts = {};              // for reinforcement learning environments
  SequenceLevelOptions sequence_level = {};  // for pairs
  DocumentFormat documents = {};             // for text

  StreamLayout layout() const { return {batch, segment}; }
};

void declare(OptionTable& table, DataOptions& options);

// Returns why data.documents.sample_by, data.documents.text_field or data.documents.end_token has
// no effect, or "". Reads the beginnings of the files.
std::string unread_document_key(const DataOptions& options, std::string_view key);

// Returns why data.documents.end_token cannot be the name or id of a token, or "". Names of a
// tokenizer file are looked up when it is read. A value that is certainly not read is accepted.
std::string validate_end_token(const DataOptions& options);

// Returns whether the run trains a subword model on data.train (text_files.h): no model is
// configured and no checkpoint has one.
bool trains_tokenizer(const DataOptions& options);

// Returns why a tokenizer of data.tokenizer.model_type cannot be trained, as a message, or "".
std::string validate_tokenizer_type(const DataOptions& options);

// Returns the tokenizer of the options. Characters are collected from data.train, or are the saved
// ones if these cover it. Throws DataError, including for a tokenizer that the run must train
// (text_files.h).
Tokenizer make_tokenizer(const DataOptions& options, const ProgressCallback& listener = {});

// Returns the vocabulary size where the options determine it, else 0.
std::int64_t configured_vocabulary(const DataOptions& options);

// Returns the vocabulary size; for an untrained subword model, an upper bound. Throws DataError.
std::int64_t planned_vocabulary(const DataOptions& options, const ProgressCallback& listener = {});

}  // namespace longspan
