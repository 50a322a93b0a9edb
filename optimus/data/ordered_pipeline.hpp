#pragma once
// Work shared out to threads whose results come back in the order of the tasks: the same bytes for any number of threads.

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// One thread makes tasks, several work on them, the calling thread takes the results in order.
///
/// Memory: at most 2 * workers + 2 tasks and kMaxChunks finished chunks a task exist at a time.
/// Errors: the first one in task order is thrown by run(), whichever thread met it first in time.
template <class Task, class Chunk>
class OrderedPipeline {
 public:
  explicit OrderedPipeline(Index num_workers) : num_workers_(num_workers), max_tasks_(static_cast<std::size_t>(2 * num_workers + 2)) {}

  /// produce(Task&) fills the next task, false when there is none; work(Task&, emit) calls emit(Chunk) as often as it likes;
  /// consume(Task&, Chunk) and then finish(Task&) see the results.
  template <class Produce, class Work, class Consume, class Finish>
  void run(Produce produce, Work work, Consume consume, Finish finish) {
    std::vector<std::jthread> threads;
    // Joined before anything they use goes away, also when consume throws.
    const StopOnExit stop{*this, threads};
    threads.emplace_back([&] { produce_all(produce); });
    for (Index i = 0; i < num_workers_; ++i) threads.emplace_back([&] { work_all(work); });
    while (const std::shared_ptr<Slot> slot = next_slot()) {
      while (true) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !slot->chunks.empty() || slot->done; });
        if (slot->chunks.empty()) break;
        Chunk chunk = std::move(slot->chunks.front());
        slot->chunks.pop_front();
        changed_.notify_all();
        lock.unlock();
        consume(slot->task, std::move(chunk));
      }
      if (slot->error) std::rethrow_exception(slot->error);
      finish(slot->task);
      const std::scoped_lock lock(mutex_);
      slots_.pop_front();
      --next_to_work_;
      changed_.notify_all();
    }
  }

 private:
  static constexpr std::size_t kMaxChunks = 4;
  struct Slot {
    Task task;
    std::deque<Chunk> chunks;
    bool done = false;
    std::exception_ptr error;
  };
  struct Stopped {};
  struct StopOnExit {
    OrderedPipeline& pipeline;
    std::vector<std::jthread>& threads;
    ~StopOnExit() {
      {
        const std::scoped_lock lock(pipeline.mutex_);
        pipeline.stopped_ = true;
        pipeline.changed_.notify_all();
      }
      threads.clear();
    }
  };

  template <class Produce>
  void produce_all(Produce& produce) {
    bool more = true;
    while (more) {
      auto slot = std::make_shared<Slot>();
      try {
        more = produce(slot->task);
      } catch (...) {
        slot->error = std::current_exception();
        slot->done = true;
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return slots_.size() < max_tasks_ || stopped_; });
      if (stopped_) return;
      if (more) slots_.push_back(slot);
      if (slot->error) more = false;
      all_produced_ = !more;
      changed_.notify_all();
    }
  }

  template <class Work>
  void work_all(Work& work) {
    while (true) {
      std::shared_ptr<Slot> slot;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return next_to_work_ < slots_.size() || all_produced_ || stopped_; });
        if (stopped_ || next_to_work_ >= slots_.size()) return;
        slot = slots_[next_to_work_++];
        if (slot->done) continue;  // an error of the producer
      }
      std::exception_ptr error;
      try {
        work(slot->task, [&](Chunk chunk) { emit(*slot, std::move(chunk)); });
      } catch (const Stopped&) {
        return;
      } catch (...) {
        error = std::current_exception();
      }
      const std::scoped_lock lock(mutex_);
      slot->error = error;
      slot->done = true;
      changed_.notify_all();
    }
  }

  void emit(Slot& slot, Chunk chunk) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slot.chunks.size() < kMaxChunks || stopped_; });
    if (stopped_) throw Stopped();
    slot.chunks.push_back(std::move(chunk));
    changed_.notify_all();
  }

  /// The oldest unfinished task; nothing when all are done.
  std::shared_ptr<Slot> next_slot() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !slots_.empty() || all_produced_; });
    return slots_.empty() ? nullptr : slots_.front();
  }

  Index num_workers_;
  std::size_t max_tasks_;
  std::mutex mutex_;
  std::condition_variable changed_;  // one for all: tasks take milliseconds
  std::deque<std::shared_ptr<Slot>> slots_;
  std::size_t next_to_work_ = 0;  // place in slots_
  bool all_produced_ = false, stopped_ = false;
};

}  // namespace optimus
