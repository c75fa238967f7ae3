#include "compile_queue.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

namespace dpiframe::cuda {

CompileQueue& CompileQueue::Get() {
  // Never destroyed, since its threads may outlive static objects. What they call may not: hence Finish.
  static CompileQueue* const queue = [] {
    auto* made = new CompileQueue();
    std::atexit([] { Get().Finish(); });
    return made;
  }();
  return *queue;
}

CompileQueue::CompileQueue() : max_threads_(std::clamp(std::thread::hardware_concurrency(), 1u, 8u)) {}

void CompileQueue::Add(std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_.push_back(std::move(work));
  if (threads_ == max_threads_) return;
  ++threads_;
  std::thread([this] { RunThread(); }).detach();
}

void CompileQueue::RunThread() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!waiting_.empty()) {
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
  --threads_;
  idle_.notify_all();
}

void CompileQueue::Finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  waiting_.clear();
  idle_.wait(lock, [this] { return threads_ == 0; });
}

}  // namespace dpiframe::cuda
