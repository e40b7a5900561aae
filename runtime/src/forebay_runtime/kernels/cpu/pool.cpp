#include "pool.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sched.h>

namespace forebay {
namespace {

constexpr int kSpins = 4000;  // about 50 microseconds; longer waits give the core to somebody else

void relax(int& spins) {
  if (++spins > kSpins) {
    sched_yield();
    return;
  }
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

struct alignas(64) Progress {
  std::atomic<int> taken{0}, done{0};
};

class Pool {
 public:
  ~Pool() { stop(); }

  int size() const { return int(threads_.size()) + 1; }

  void resize(int count) {
    stop();
    quit_ = false;
    for (int i = 1; i < count; i++) threads_.emplace_back([this] { serve(); });
  }

  void run(const Stage* stages, int count) {
    std::lock_guard<std::mutex> one_caller(running_);
    if (count > capacity_) {
      progress_.reset(new Progress[count]);
      capacity_ = count;
    }
    for (int i = 0; i < count; i++) {
      progress_[i].taken.store(0, std::memory_order_relaxed);
      progress_[i].done.store(0, std::memory_order_relaxed);
    }
    stages_ = stages, count_ = count;
    if (!threads_.empty()) {
      std::lock_guard<std::mutex> lock(mutex_);
      open_ = true, program_++;
      wake_.notify_all();
    }
    work();
    if (threads_.empty()) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_ = false;  // who has not come by now needs not come at all
    }
    for (int spins = 0; inside_.load(std::memory_order_acquire);) relax(spins);
  }

 private:
  void work() {
    for (int i = 0; i < count_; i++) {
      const Stage& stage = stages_[i];
      Progress& progress = progress_[i];
      for (int tile; (tile = progress.taken.fetch_add(1, std::memory_order_relaxed)) < stage.tiles;) {
        stage.run(stage.context, stage.argument, tile);
        progress.done.fetch_add(1, std::memory_order_release);
      }
      for (int spins = 0; progress.done.load(std::memory_order_acquire) < stage.tiles;) relax(spins);
    }
  }

  void serve() {
    for (unsigned long seen = 0;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return quit_ || (open_ && program_ != seen); });
        if (quit_) return;
        seen = program_;
        inside_.fetch_add(1, std::memory_order_relaxed);
      }
      work();
      inside_.fetch_sub(1, std::memory_order_release);
    }
  }

  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      quit_ = true;
      wake_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  std::vector<std::thread> threads_;
  std::mutex running_, mutex_;
  std::condition_variable wake_;
  bool quit_ = false, open_ = false;
  unsigned long program_ = 0;
  std::atomic<int> inside_{0};
  std::unique_ptr<Progress[]> progress_;
  int capacity_ = 0;
  const Stage* stages_ = nullptr;
  int count_ = 0;
};

// Never destroyed: at exit threads may still be inside.
Pool& pool() {
  static Pool* const the_pool = new Pool;
  return *the_pool;
}

}  // namespace

void set_threads(int count) { pool().resize(count); }
int num_threads() { return pool().size(); }
void run_stages(const Stage* stages, int count) { pool().run(stages, count); }

}  // namespace forebay
