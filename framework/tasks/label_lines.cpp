#include "framework/tasks/label_lines.h"

#include <algorithm>

#include "framework/data/batching/batch_plan.h"

namespace longspan {
namespace {

// Targets are 0 at the positions to label.
Fields fields_of(std::span<const LabeledLine> lines,
                 const std::vector<std::size_t>& batch,
                 const std::string& field,
                 bool each_token) {
  const auto rows = std::ssize(batch);
  const std::int64_t time = std::ssize(lines[batch.front()].tokens);
  Fields fields = {{field, full_tensor({rows, time}, 0)},
                   {"length", full_tensor({rows}, 0)},
                   {each_token ? "targets" : "label",
                    full_tensor(each_token ? Shape{rows, time} : Shape{rows}, ignored_target)}};
  for (std::size_t row = 0; row < batch.size(); ++row) {
    const LabeledLine& line = lines[batch[row]];
    std::ranges::copy(line.tokens, row_of(fields[field], row).begin());
    fields["length"].span<std::int64_t>()[row] = std::ssize(line.tokens);
    for (const std::size_t at : line.places) row_of(fields["targets"], row)[at] = 0;
  }
  return fields;
}

}  // namespace

std::vector<std::vector<std::int64_t>> predict_labels(
    const Model& model,
    std::span<const LabeledLine> lines,
    const std::string& field,
    bool each_token,
    std::int64_t batch_tokens,
    const std::function<std::string(std::size_t)>& place,
    const std::function<void()>& after_batch) {
  const std::int64_t longest = model.body().max_segment_length();
  std::vector<std::vector<std::int64_t>> found(lines.size());
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::int64_t tokens = std::ssize(lines[i].tokens);
    if (longest > 0 && tokens > longest)
      throw DataError("{}: expected at most {} tokens, found {}", place(i), longest, tokens);
    if (tokens > 0) found[i].assign(each_token ? lines[i].places.size() : 1, 0);
    wanted += std::ssize(found[i]);
  }
  const ProcessMesh& mesh = model.parameters().mesh();
  const auto tokens_of = [&](std::int64_t line) -> Lengths {
    return {0, std::ssize(lines[static_cast<std::size_t>(line)].tokens)};
  };
  const auto batches = examples_of(sorted_batches(std::ssize(lines), tokens_of, batch_tokens));
  for (std::size_t b = static_cast<std::size_t>(mesh.data.rank()); b < batches.size();
       b += static_cast<std::size_t>(mesh.data.size())) {
    const Predictions answers = model.predict(
        {.fields = fields_of(lines, batches[b], field, each_token)}, ForwardContext{});
    for (std::size_t row = 0; row < batches[b].size(); ++row) {
      const std::size_t i = batches[b][row];
      if (!each_token) {
        found[i].front() = answers.choices.span<std::int64_t>()[row];
        continue;
      }
      const auto choices = row_of(answers.choices, row);
      for (std::size_t word = 0; word < lines[i].places.size(); ++word)
        found[i][word] = choices[lines[i].places[word]];
    }
    if (after_batch) after_batch();
  }
  // Labels of other data ranks are 0 here.
  const Tensor all = Tensor::empty({wanted}, DType::i64, Device::cpu(), MemoryTag::workspace);
  std::int64_t* at = all.data<std::int64_t>();
  for (const auto& of_line : found) at = std::ranges::copy(of_line, at).out;
  if (wanted > 0) mesh.data.all_reduce(all, Reduction::sum);
  at = all.data<std::int64_t>();
  for (auto& of_line : found)
    for (std::int64_t& id : of_line) id = *at++;
  return found;
}

}  // namespace longspan
