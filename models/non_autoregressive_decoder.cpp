#include "models/non_autoregressive_decoder.h"

#include <utility>
#include <vector>

namespace longspan {
namespace {

using DecoderKind = EncoderDecoderOptions::Decoder;

void declare_lengths(OptionTable& table, EncoderDecoderOptions& options) {
  table.add("model.nat.length_loss_factor",
            options.masking.length_weight,
            "weight of the length loss",
            between(0, 1e6),
            only_with(is("model.decoder_type", {"non_autoregressive"})));
  table.add("model.nat.pred_length_offset",
            options.masking.length_offset,
            "prediction of the length difference between target and source, -128 to 127; false: of "
            "the target length, up to 255",
            affects_weights(),
            only_with(is("model.decoder_type", {"non_autoregressive"})));
  table.add("model.nat.sg_length_pred",
            options.masking.length_detached,
            "stop-gradient between the length loss and the encoder",
            only_with(is("model.decoder_type", {"non_autoregressive"})));
}

void declare_refinement(OptionTable& table, EncoderDecoderOptions& options) {
  table.add("model.nat.num_refinement_passes",
            options.masking.passes,
            "number of refinement passes in training, whose losses are summed",
            between(1, 64),
            only_with(is("model.nat.objective", {"iterative"})));
  table.add("model.nat.dae_ratio",
            options.masking.denoised,
            "fraction of rows that read corrupted gold tokens instead of the previous pass "
            "(denoising autoencoder)",
            between(0, 1),
            only_with(is("model.nat.objective", {"iterative"})));
  table.add("model.nat.single_random_pass",
            options.masking.one_pass,
            "loss of one random pass per step; false: of all passes",
            only_with(is("model.nat.objective", {"iterative"})));
}

}  // namespace

void declare_nat(OptionTable& table,
                 EncoderDecoderOptions& options,
                 const PlannedBuildOptions& planned) {
  table.add("model.decoder_type",
            options.decoder,
            "type of decoder: autoregressive, or non_autoregressive (all tokens in parallel, with "
            "a predicted length)",
            {{"autoregressive", DecoderKind::causal}, {"non_autoregressive", DecoderKind::masked}},
            affects_weights());
  table.add("model.nat.objective",
            options.masking.masking,
            "training objective: cmlm (a random number of masked tokens, Ghazvininejad et al. "
            "2019), vanilla (all tokens, Gu et al. 2018) or iterative (all tokens, refined in "
            "several passes, Lee et al. 2018)",
            {{"cmlm", NatObjective::random},
             {"vanilla", NatObjective::all},
             {"iterative", NatObjective::refined}},
            affects_weights(),
            only_with(is("model.decoder_type", {"non_autoregressive"})));
  table.add("model.nat.src_embedding_copy",
            options.masking.first,
            "source tokens at proportional positions as decoder input; false: mask tokens",
            {{"false", NatDecoderInput::mask}, {"true", NatDecoderInput::source}},
            affects_weights(),
            only_with(is("model.nat.objective", {"vanilla", "iterative"})));
  declare_lengths(table, options);
  declare_refinement(table, options);
  std::vector<std::string> keys = {"model.decoder_type",
                                   "model.use_pointer_generator",
                                   "model.coverage_loss_weight",
                                   "model.nat.src_embedding_copy",
                                   "model.share_encoder_decoder_embeddings"};
  if (planned) keys.emplace_back("training.scheduled_sampling.method");
  table.check(std::move(keys), [&options, planned] {
    return validate_masked(options, planned ? planned().sampling : ScheduledSampling());
  });
  if (planned && table.has("data.tokenizer.forced_bos_token"))
    table.warn("data.tokenizer.forced_bos_token", [&options]() -> std::string {
      return options.decoder == DecoderKind::masked ? "model.decoder_type is non_autoregressive"
                                                    : "";
    });
}

std::string validate_masked(const EncoderDecoderOptions& options,
                            const ScheduledSampling& sampling) {
  if (options.decoder == DecoderKind::causal) return "";
  if (options.source.copies || options.source.coverage > 0)
    return "model.decoder_type: non_autoregressive does not support copying and coverage; set "
           "model.use_pointer_generator to false and model.coverage_loss_weight to 0";
  if (sampling.mixing != ScheduledSamplingMethod::none)
    return "model.decoder_type: non_autoregressive does not support "
           "training.scheduled_sampling.method; set it to none";
  const bool copies = options.masking.masking != NatObjective::random &&
                      options.masking.first == NatDecoderInput::source;
  if (copies && options.embeddings == EncoderDecoderOptions::Embeddings::apart)
    return "model.nat.src_embedding_copy requires model.share_encoder_decoder_embeddings: true";
  return "";
}

AuxiliaryMetric out_of_range_lengths(const Fields& fields, const NatOptions& options) {
  AuxiliaryMetric watched = {.name = "out_of_range_lengths", .count = "rows"};
  const Tensor& length = field_of(fields, "length");
  if (length.device().state().is_meta()) return watched;
  const auto sources = field_of(fields, "source_length").span<std::int64_t>();
  for (std::size_t row = 0; const std::int64_t with_end : length.span<std::int64_t>()) {
    const std::int64_t source = sources[row++], words = with_end - 1;
    if (words < 1) continue;
    const std::int64_t reported = length_of_class(
        source, length_class(source, words, options.length_offset), options.length_offset);
    if (reported != words) watched.sum += watched.largest = 1;
  }
  return watched;
}

}  // namespace longspan
