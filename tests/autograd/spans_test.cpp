// Profiler spans of ops and of their gradients.
#include <gtest/gtest.h>

#include "framework/autograd/ops.h"
#include "framework/core/timeline.h"
#include "framework/profiling/trace_text.h"

namespace longspan::spans_test {
namespace {

// "op linear in layers/0", ... in order of their end.
std::vector<std::string> op_names(const RecordedSpans& recorded) {
  SpanNames names;
  std::vector<std::string> result;
  for (const TimedSpan& span : recorded.spans) {
    const std::string& layer = recorded.texts[span.layer];
    if (span.kind == ActivityKind::op)
      result.push_back(names.name_of(span, recorded.texts) + (layer.empty() ? "" : " in ") + layer);
  }
  return result;
}

TEST(OpSpans, HaveOpNameAndLayer) {
  const Device device = Device::cpu();
  const Variable x = Variable::leaf(Tensor::zeros({4, 3}, DType::f32, device));
  const Variable weight = Variable::leaf(Tensor::zeros({2, 3}, DType::f32, device));
  Timeline timeline;
  timeline.start();
  {
    const TimelineScope here(&timeline);
    Variable y;
    {
      const Span layer({.kind = ActivityKind::layer, .layer = "layers/0"});
      y = linear(x, weight, Variable());
    }
    backward(sum(y, 1.0));
  }
  const RecordedSpans recorded = timeline.stop();
  EXPECT_EQ(op_names(recorded),
            (std::vector<std::string>{
                "linear in layers/0", "sum", "sum (backward)", "linear (backward) in layers/0"}));
  const auto kernels = std::ranges::count(recorded.spans, ActivityKind::kernel, &TimedSpan::kind);
  EXPECT_GE(kernels, 5);  // a product, a sum, and two products and a sum back
}

TEST(OpSpans, BackwardSpanContainsKernelSpans) {
  const Device device = Device::cpu();
  const Variable x = Variable::leaf(Tensor::zeros({4, 3}, DType::f32, device));
  const Variable weight = Variable::leaf(Tensor::zeros({2, 3}, DType::f32, device));
  const Variable loss = sum(linear(x, weight, Variable()), 1.0);
  Timeline timeline;
  timeline.start();
  {
    const TimelineScope here(&timeline);
    backward(loss);
  }
  const RecordedSpans recorded = timeline.stop();
  const TimedSpan& gradient = recorded.spans.back();
  ASSERT_EQ(op_names(recorded).back(), "linear (backward)");  // recorded before the timeline
  std::int64_t within = 0;
  for (const TimedSpan& span : recorded.spans)
    if (span.kind == ActivityKind::kernel && span.begin >= gradient.begin) {
      EXPECT_LE(span.end, gradient.end);
      EXPECT_TRUE(span.backward);
      within += span.end - span.begin;
    }
  EXPECT_EQ(gradient.self_time, gradient.end - gradient.begin - within);
}

}  // namespace
}  // namespace longspan::spans_test
