// Streams and events of the emulated device.
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "tests/support/emulated_cuda/counts.h"
#include "tests/support/emulated_cuda/cuda_runtime.h"

struct CUstream_st {
  std::deque<std::function<bool()>> work;  // the first is in progress
  // Only this thread advances the work, which may call a library for one thread.
  std::thread::id owner = std::this_thread::get_id();
  bool destroyed = false;
};

struct CUevent_st {
  // Belongs to the last record. Waits refer to the record at their time.
  std::shared_ptr<bool> passed = std::make_shared<bool>(true);
};

namespace emulated_cuda {
namespace {

// Never destroyed: the destructor of a device may still wait for its stream.
class Streams {
 public:
  cudaStream_t make() {
    const std::lock_guard lock(mutex_);
    return *streams_.insert(new CUstream_st).first;
  }

  // Queued work still runs.
  void destroy(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    stream->destroyed = true;
    remove_if_done(stream);
  }

  void queue(cudaStream_t stream, std::function<bool()> work) {
    const std::lock_guard lock(mutex_);
    stream->work.push_back(std::move(work));
    if (stream->work.size() == 1 || stream->owner == std::this_thread::get_id()) advance(*stream);
  }

  // Advances all streams; returns whether `asked` is idle.
  bool advance_all(cudaStream_t asked) {
    const std::lock_guard lock(mutex_);
    const std::set<cudaStream_t> streams = streams_;
    for (const cudaStream_t stream : streams) {
      if (stream->owner == std::this_thread::get_id()) advance(*stream);
      if (stream != asked) remove_if_done(stream);
    }
    return asked == nullptr || asked->work.empty();
  }

 private:
  static void advance(CUstream_st& stream) {
    while (!stream.work.empty() && stream.work.front()()) stream.work.pop_front();
  }

  void remove_if_done(cudaStream_t stream) {
    if (!stream->destroyed || !stream->work.empty()) return;
    streams_.erase(stream);
    delete stream;
  }

  std::mutex mutex_;
  std::set<cudaStream_t> streams_;
};

Streams& streams() {
  static Streams* const the_streams = new Streams;
  return *the_streams;
}

}  // namespace

void queue_lasting(cudaStream_t stream, std::function<bool()> work) {
  streams().queue(stream, std::move(work));
}

void queue(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr) return work();
  queue_lasting(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

}  // namespace emulated_cuda

namespace {

// A thread that waits inside the driver blocks other threads, as real drivers may.
std::mutex driver;

}  // namespace

using emulated_cuda::streams;

cudaError_t cudaDeviceGetStreamPriorityRange(int* last, int* first) {
  *last = 0;
  *first = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = streams().make();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  streams().destroy(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return streams().advance_all(stream) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  emulated_cuda::count(&emulated_cuda::Counts::waits);
  const std::lock_guard lock(driver);
  while (!streams().advance_all(stream)) continue;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  emulated_cuda::queue_lasting(stream, [passed = event->passed] { return *passed; });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->passed = std::make_shared<bool>(false);
  emulated_cuda::queue(stream, [passed = event->passed] { *passed = true; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(driver);
  static_cast<void>(streams().advance_all(nullptr));
  return *event->passed ? cudaSuccess : cudaErrorNotReady;
}
