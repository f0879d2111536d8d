#include <algorithm>
#include <limits>

#include "framework/autograd/losses.h"
#include "framework/modeling/argmax.h"
#include "framework/modeling/heads.h"
#include "framework/modeling/sequence_parallel.h"
#include "framework/nn/layers.h"

namespace longspan {
namespace {

// Positions and tags of the words of each row.
struct Words {
  std::int64_t most = 1;              // in a row
  std::vector<std::int64_t> places;   // [rows, most], -1 after a row's last word
  std::vector<std::int64_t> tags;     // [rows, most], -1 after a row's last word
  std::vector<std::int64_t> lengths;  // [rows]
};

// Returns the words in `read` whose tag is below `tags`. On a dry device, which has no word
// boundaries, every token starts a word.
Words words_of(const Tensor& targets, const Range& read, std::int64_t tags) {
  const std::int64_t rows = targets.shape()[0], time = targets.shape()[1];
  const bool is_dry = targets.device().state().is_meta();
  const auto tag_at = [&](std::int64_t row, std::int64_t place) {
    const std::int64_t tag = is_dry ? 0 : targets.data<std::int64_t>()[row * time + place];
    return tag < tags ? tag : ignored_target;
  };
  Words words;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t length = 0;
    for (std::int64_t place = read.begin; place < read.end; ++place)
      length += tag_at(row, place) >= 0 ? 1 : 0;
    words.lengths.push_back(length);
    words.most = std::max(words.most, length);
  }
  words.places.assign(static_cast<std::size_t>(rows * words.most), -1);
  words.tags = words.places;
  for (std::int64_t row = 0; row < rows; ++row) {
    auto at = static_cast<std::size_t>(row * words.most);
    for (std::int64_t place = read.begin; place < read.end; ++place) {
      if (tag_at(row, place) < 0) continue;
      words.places[at] = place;
      words.tags[at++] = tag_at(row, place);
    }
  }
  return words;
}

class Tags : public OutputHead {
 public:
  Tags(const Scope& scope, const OutputHeadSpec& end, const ModelBuildOptions& setting)
      : device_(setting.device),
        mesh_(setting.mesh),
        part_{0, setting.classes, setting.classes},
        kind_(end.tags),
        scores_(
            scope,
            {.in = end.width, .out = setting.classes, .initial = end.initial, .hidden = false}) {
    if (kind_ != TaggingHeadType::crf) return;
    // As in pytorch-crf.
    const Initializer initial = Initializer::uniform(0.1);
    start_ = scope.no_decay_weight("start", {setting.classes}, initial);
    transitions_ =
        scope.no_decay_weight("transitions", {setting.classes, setting.classes}, initial);
    end_ = scope.no_decay_weight("end", {setting.classes}, initial);
  }

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext& pass) const override {
    // Words whose tag is absent from training are omitted, since it has no score.
    const Tensor& targets = field_of(reading.fields, "targets");
    const Range read = positions_read(pass, targets.shape()[1]);
    require(kind_ != TaggingHeadType::crf || read.count() == targets.shape()[1],
            "a CRF requires whole sequences");
    const Words words = words_of(targets, read, part_.total);
    return {{.name = "loss",
             .values = sequence_losses(losses(of_words(states, words), words), mesh_),
             .count = "tokens"}};
  }

  Variable scores(const BackboneOutput& states,
                  const ModelInput&,
                  const ForwardContext&) const override {
    const Variable& x = states.hidden;
    return scores_(states.time.divided()
                       ? gather_from_sequence_parallel_region(x, states.time.rows(), mesh_.tensor)
                       : x);
  }

  Tensor predictions(const BackboneOutput& states,
                     const ModelInput& reading,
                     const ForwardContext&) const override {
    const NoGradGuard unrecorded;
    const Tensor& targets = field_of(reading.fields, "targets");
    const std::int64_t rows = targets.shape()[0], time = targets.shape()[1];
    const Words words = words_of(targets, {0, time}, std::numeric_limits<std::int64_t>::max());
    const Variable scores = of_words(states, words);
    const Tensor best =
        kind_ == TaggingHeadType::crf
            ? viterbi_decode(scores.value(), chain(), host_field(words.lengths, {rows}, device_))
                  .tags.to_host()
            : argmax_classes(scores.value());
    const Tensor all =
        Tensor::empty({rows, time}, DType::i64, device_.host(), MemoryTag::workspace);
    std::ranges::fill(all.span<std::int64_t>(), std::int64_t{-1});
    for (std::size_t i = 0; i < words.places.size(); ++i)
      if (words.places[i] >= 0)
        all.data<std::int64_t>()[static_cast<std::int64_t>(i) / words.most * time +
                                 words.places[i]] = best.data<std::int64_t>()[i];
    return all;
  }

  const ShardRange& part() const override { return part_; }

 private:
  CrfWeights chain() const { return {start_->variable, transitions_->variable, end_->variable}; }

  // [rows, words.most, tags] of all positions, in the accumulator dtype.
  Variable of_words(const BackboneOutput& states, const Words& words) const {
    const Variable here = scores_(states.hidden);
    return gather_positions(cast(here, accumulator_of(here.value().dtype())),
                            states.time.outside(),
                            words.places,
                            words.most,
                            mesh_.time);
  }

  // Losses of the rows of this rank.
  Variable losses(Variable&& scores, const Words& words) const {
    const std::int64_t rows = scores.shape()[0];
    const Range own = rows_with_losses(mesh_, rows);
    const auto is_own = [&](std::int64_t row) { return row >= own.begin && row < own.end; };
    if (kind_ == TaggingHeadType::crf) {
      std::vector<std::int64_t> lengths = words.lengths;
      for (std::int64_t row = 0; row < rows; ++row)
        if (!is_own(row)) lengths[static_cast<std::size_t>(row)] = 0;
      return crf_losses(scores,
                        chain(),
                        host_field(words.tags, {rows, words.most}, device_),
                        host_field(lengths, {rows}, device_));
    }
    std::vector<std::int64_t> tags = words.tags;
    for (std::size_t i = 0; i < tags.size(); ++i)
      if (!is_own(static_cast<std::int64_t>(i) / words.most)) tags[i] = ignored_target;
    return cross_entropy(std::move(scores),
                         host_field(tags, {rows * words.most}, device_),
                         {.vocabulary = part_.total},
                         Communicator());
  }

  Device device_;
  ProcessMesh mesh_;
  ShardRange part_;
  TaggingHeadType kind_;
  Linear scores_;
  Weight start_;
  Weight transitions_;
  Weight end_;
};

}  // namespace

OutputHeadFactory tagging_head() {
  return [](const Scope& scope, const Backbone& body, const ModelBuildOptions& setting) {
    require(setting.classes > 0, "a tagging head requires at least 1 tag");
    return std::make_unique<Tags>(scope.child("output"), body.end(), setting);
  };
}

}  // namespace longspan
