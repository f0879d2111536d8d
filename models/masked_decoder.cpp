#include "models/masked_decoder.h"

#include <utility>
#include <vector>

namespace longspan {
namespace {

using DecoderKind = EncoderDecoderOptions::Decoder;

void declare_lengths(OptionTable& table, EncoderDecoderOptions& options) {
  table.add("model.length_weight",
            options.masking.length_weight,
            "with model.decoder: masked, the weight of the loss of lengths",
            between(0, 1e6));
  table.add("model.length_offset",
            options.masking.length_offset,
            "with model.decoder: masked, whether the length that is predicted is how much longer "
            "than its source a target is, from -128 to 127, or its length as it is, up to 255",
            fixes_weights());
  table.add("model.length_detached",
            options.masking.length_detached,
            "with model.decoder: masked, whether the encoder learns nothing from the loss of "
            "lengths");
}

void declare_refinement(OptionTable& table, EncoderDecoderOptions& options) {
  table.add("model.refine_passes",
            options.masking.passes,
            "with model.masking: refined, how often training says the words of a target; the "
            "losses of all times are summed",
            between(1, 64));
  table.add("model.refine_denoised",
            options.masking.denoised,
            "with model.masking: refined, the part of the rows that read the true words with some "
            "mistakes in place of what was said the time before",
            between(0, 1));
  table.add("model.refine_one_pass",
            options.masking.one_pass,
            "with model.masking: refined, whether a step learns from one time alone, which is "
            "drawn, instead of from all");
}

void warn_of_unread(OptionTable& table,
                    const EncoderDecoderOptions& options,
                    const PlannedSetting& planned) {
  const auto unmasked = [&options]() -> std::string {
    return options.decoder == DecoderKind::masked ? "" : "model.decoder is causal";
  };
  const auto unrefined = [&options, unmasked]() -> std::string {
    if (const std::string reason = unmasked(); !reason.empty()) return reason;
    return options.masking.masking == WordMasking::refined ? "" : "model.masking is not refined";
  };
  for (const char* key :
       {"model.masking", "model.length_weight", "model.length_offset", "model.length_detached"})
    table.warn(key, unmasked);
  for (const char* key : {"model.refine_passes", "model.refine_denoised", "model.refine_one_pass"})
    table.warn(key, unrefined);
  if (planned && table.has("data.first_token"))
    table.warn("data.first_token", [&options]() -> std::string {
      return options.decoder == DecoderKind::masked
                 ? "model.decoder is masked, which says all at once"
                 : "";
    });
  table.warn("model.first_words", [&options, unmasked]() -> std::string {
    if (const std::string reason = unmasked(); !reason.empty()) return reason;
    return options.masking.masking == WordMasking::random ? "model.masking is random" : "";
  });
}

}  // namespace

void declare_masked(OptionTable& table,
                    EncoderDecoderOptions& options,
                    const PlannedSetting& planned) {
  table.add("model.decoder",
            options.decoder,
            "says one word after another; or all at once, in a length that is predicted",
            {{"causal", DecoderKind::causal}, {"masked", DecoderKind::masked}},
            fixes_weights());
  table.add("model.masking",
            options.masking.masking,
            "with model.decoder: masked, what it learns: to say the masked words among others, of "
            "which as many as is drawn are masked (Ghazvininejad et al. 2019); all words of none "
            "(Gu et al. 2018); or all, again and again from what it said (Lee et al. 2018)",
            {{"random", WordMasking::random},
             {"all", WordMasking::all},
             {"refined", WordMasking::refined}},
            fixes_weights());
  table.add("model.first_words",
            options.masking.first,
            "with model.masking: all or refined, what stands for words that were not said yet: a "
            "mask, or the words of the source at like places",
            {{"mask", FirstWords::mask}, {"source", FirstWords::source}},
            fixes_weights());
  declare_lengths(table, options);
  declare_refinement(table, options);
  std::vector<std::string> keys = {
      "model.decoder", "model.copy", "model.coverage", "model.first_words", "model.embeddings"};
  if (planned) keys.emplace_back("training.sampling");
  table.check(std::move(keys), [&options, planned] {
    return masked_problem(options, planned ? planned().sampling : ScheduledSampling());
  });
  warn_of_unread(table, options, planned);
}

std::string masked_problem(const EncoderDecoderOptions& options,
                           const ScheduledSampling& sampling) {
  if (options.decoder == DecoderKind::causal) return "";
  if (options.source.copies || options.source.coverage > 0)
    return "model.decoder is masked, and copying and coverage are of words that are said one after "
           "another; set model.copy to false and model.coverage to 0";
  if (sampling.mixing != InputMixing::none)
    return "model.decoder is masked, and training.sampling is for words that are said one after "
           "another; set it to none";
  const bool copies =
      options.masking.masking != WordMasking::random && options.masking.first == FirstWords::source;
  if (copies && options.embeddings == EncoderDecoderOptions::Embeddings::apart)
    return "model.first_words is source, whose words a decoder with embeddings of its own does not "
           "know; set model.embeddings to shared";
  return "";
}

Watched far_lengths(const Fields& fields, const WordMaskingOptions& options) {
  Watched watched = {.name = "far_lengths", .count = "rows"};
  const Tensor& length = field_of(fields, "length");
  if (length.device().state().dry()) return watched;
  const auto sources = field_of(fields, "source_length").span<std::int64_t>();
  for (std::size_t row = 0; const std::int64_t with_end : length.span<std::int64_t>()) {
    const std::int64_t source = sources[row++], words = with_end - 1;
    if (words < 1) continue;
    const std::int64_t said = length_of_class(
        source, length_class(source, words, options.length_offset), options.length_offset);
    if (said != words) watched.sum += watched.largest = 1;
  }
  return watched;
}

}  // namespace longspan
