// Work for a few threads beside the session's own: kernels compile while ONNX Runtime creates the next nodes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace dpiframe::cuda {

class CompileQueue {
 public:
  static CompileQueue& Get();

  // Runs work on a thread of the queue; the work must not throw. Threads end when there is nothing left to do. At the
  // end of the process what has not begun is dropped, and what has begun is waited for.
  void Add(std::function<void()> work);

 private:
  CompileQueue();
  void RunThread();
  void Finish();

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<std::function<void()>> waiting_;
  unsigned threads_ = 0;
  unsigned max_threads_;
};

}  // namespace dpiframe::cuda
