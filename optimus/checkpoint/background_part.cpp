#include "optimus/checkpoint/background_part.hpp"

#include <chrono>
#include <utility>

namespace optimus {
namespace {

constexpr auto kBetweenMeetings = std::chrono::milliseconds(100);

}  // namespace

BackgroundPart::BackgroundPart(std::function<void()> work)
    : thread_([this, work = std::move(work)] {
        work();
        const std::lock_guard lock(mutex_);
        is_done_ = true;
        changed_.notify_all();
      }) {}

BackgroundPart::~BackgroundPart() { thread_.join(); }

bool BackgroundPart::is_done_by_all(Communicator& world) {
  Index all_done = 0;
  {
    const std::lock_guard lock(mutex_);
    all_done = is_done_ ? 1 : 0;
  }
  world.all_reduce(View(reinterpret_cast<std::byte*>(&all_done), DType::kI64, Shape{1}), Reduce::kMin);
  return all_done != 0;
}

void BackgroundPart::wait_for_all(Communicator& world, const std::function<void()>& waiting) {
  // Who is through waits in the next meeting; who is not comes to it after a moment.
  while (!is_done_by_all(world)) {
    if (waiting) waiting();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kBetweenMeetings, [this] { return is_done_; });
  }
}

}  // namespace optimus
