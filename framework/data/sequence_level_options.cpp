#include "framework/data/sequence_level_options.h"

#include <fmt/format.h>

#include "framework/options/options.h"

namespace longspan {
namespace {

constexpr const char* method_key = "training.sequence_level.method";

Condition is_sequence_level() { return is_not(method_key, "none"); }

void declare_candidates(OptionTable& table, SequenceLevelOptions& options) {
  table.add("training.sequence_level.num_candidates",
            options.candidates,
            "number of candidates sampled for each pair in each step, at least 2 unless "
            "training.sequence_level.method is self_critical (Shen et al. 2016: 100)",
            between(1, 1 << 12),
            only_with(is_sequence_level()));
  table.add("training.sequence_level.temperature",
            options.temperature,
            "temperature of candidate sampling, a divisor of the logits; 1: the model's "
            "distribution, below 1: closer to the greedy output. 1 unless "
            "training.sequence_level.method is minimum_risk",
            more_than(0.0),
            only_with(is_sequence_level()));
  table.add("training.sequence_level.max_extra_length",
            options.extra_length,
            "maximum length of a candidate beyond its reference, in tokens; longer ones are cut "
            "and have no end token",
            between(0, 1 << 20),
            only_with(is_sequence_level()));
  table.add("training.sequence_level.include_reference",
            options.with_reference,
            "reference in place of the last candidate",
            only_with(is(method_key, {"minimum_risk"})));
}

void declare_rewards(OptionTable& table, SequenceLevelOptions& options) {
  table.add("training.sequence_level.metric",
            options.metric,
            "metric of a candidate that is maximized: bleu (smoothed sentence BLEU, Lin and Och "
            "2004), chrf, word_error_rate (1 - edits / reference words; of pronunciations, the "
            "phoneme error rate) or exact_match",
            {{"bleu", SentenceMetric::bleu},
             {"chrf", SentenceMetric::chrf},
             {"word_error_rate", SentenceMetric::error_rate},
             {"exact_match", SentenceMetric::exact_match}},
            value_excludes("chrf", is("training.sequence_level.metric_unit", {"tokens"})),
            only_with(is_sequence_level()));
  table.add("training.sequence_level.metric_unit",
            options.unit,
            "units that the metric compares: words of the text (those of data.bleu_tokenizer for "
            "bleu) or tokens of the tokenizer",
            {{"words", SentenceUnit::words}, {"tokens", SentenceUnit::tokens}},
            only_with(is_sequence_level()));
}

void declare_losses(OptionTable& table, SequenceLevelOptions& options) {
  table.add("training.sequence_level.alpha",
            options.alpha,
            "sharpness: candidates have weights proportional to their probability to the power of "
            "alpha; 0: equal weights, 1: the model's distribution",
            at_least(0.0),
            only_with(is(method_key, {"minimum_risk"})));
  table.add("training.sequence_level.normalize_length",
            options.normalizes_length,
            "division of the log-probability of a candidate by its number of tokens",
            only_with(is(method_key, {"minimum_risk"})));
  table.add("training.sequence_level.normalizer",
            options.normalizer,
            "divisor of the loss: tokens (number of all tokens of the candidates) or sequences "
            "(number of candidates)",
            {{"tokens", SequenceNormalizer::tokens}, {"sequences", SequenceNormalizer::sequences}},
            only_with(is(method_key, {"self_critical", "leave_one_out"})));
  table.add("training.sequence_level.cross_entropy_weight",
            options.cross_entropy_weight,
            "weight of the cross-entropy of the references, which is added to the loss; 0: none",
            at_least(0.0),
            only_with(is_sequence_level()));
}

}  // namespace

std::string problem_of(const SequenceLevelOptions& options) {
  using enum SequenceLevelMethod;
  if (!options.is_used()) return "";
  const char* const method = options.method == leave_one_out   ? "leave_one_out"
                             : options.method == self_critical ? "self_critical"
                                                               : "minimum_risk";
  if (options.method != minimum_risk && options.temperature != 1)
    return fmt::format(
        "training.sequence_level.temperature: expected 1 with {}: {}, found {}; set it to 1, or "
        "use minimum_risk, whose candidates may have any distribution",
        method_key,
        method,
        options.temperature);
  if (options.method == self_critical || options.candidates >= 2) return "";
  return fmt::format(
      "training.sequence_level.num_candidates: expected at least 2 with {}: {}, found {}; {}",
      method_key,
      method,
      options.candidates,
      options.method == leave_one_out
          ? "set it to 2 or more, or use self_critical"
          : "set it to 2 or more, since a single candidate has no gradient");
}

void declare(OptionTable& table, SequenceLevelOptions& options) {
  table.add(method_key,
            options.method,
            "sequence-level training on candidates sampled from the model: none, minimum_risk "
            "(expected cost, Shen et al. 2016), self_critical (REINFORCE, baseline: the greedy "
            "output's reward, Rennie et al. 2017) or leave_one_out (REINFORCE, baseline: the mean "
            "reward of the other candidates). To start from a trained model, set "
            "training.init_from.path",
            {{"none", SequenceLevelMethod::none},
             {"minimum_risk", SequenceLevelMethod::minimum_risk},
             {"self_critical", SequenceLevelMethod::self_critical},
             {"leave_one_out", SequenceLevelMethod::leave_one_out}},
            needs(is("run.task", {"translation"})),
            excludes(is_above("training.label_smoothing", 0)),
            excludes(is_not("training.scheduled_sampling.method", "none")),
            excludes(is("model.decoder_type", {"non_autoregressive"})),
            excludes(is_above("model.coverage_loss_weight", 0)),
            excludes(is_not("model.guided_attention.type", "none")),
            excludes(is_set("memory.bptt_chunk_length")));
  declare_candidates(table, options);
  declare_rewards(table, options);
  declare_losses(table, options);
  table.check(
      {"training.sequence_level.num_candidates", "training.sequence_level.temperature", method_key},
      [&options] { return problem_of(options); });
}

}  // namespace longspan
