#include "optimus/comm/two_level/stage_queue.hpp"

#include <algorithm>

#include "optimus/comm/while_set.hpp"

namespace optimus::two_level {

StageQueue::JobHandle StageQueue::push(std::unique_ptr<StagedWork> work) {
  jobs_.push_back(std::make_shared<Job>());
  jobs_.back()->work = std::move(work);
  return jobs_.back();
}

bool StageQueue::are_requests_done(Job& job) {
  while (job.num_done < job.requests.size() && job.requests[job.num_done]->test()) ++job.num_done;
  return job.num_done == job.requests.size();
}

/// Moves on what can move on.  Returns whether others took the places of finished ones.
bool StageQueue::sweep() {
  int num_started_before = kNumStages;
  for (std::size_t i = 0; i < std::min(jobs_.size(), kInFlight); ++i) {
    const JobHandle job = jobs_[i];
    while (!job->is_done && are_requests_done(*job)) {
      if (job->num_started == kNumStages) {
        job->work->finish();
        job->work.reset();
        job->is_done = true;
      } else if (job->num_started < num_started_before) {
        job->work->start(job->num_started++, job->requests);
      } else {
        break;
      }
    }
    num_started_before = job->num_started;
  }
  const std::size_t before = jobs_.size();
  while (!jobs_.empty() && jobs_.front()->is_done) jobs_.pop_front();
  return jobs_.size() < before && !jobs_.empty();
}

void StageQueue::advance() {
  if (is_advancing_ || jobs_.empty()) return;  // testing a request polls, and polling advances
  const WhileSet advancing(is_advancing_);
  while (sweep()) continue;
}

void StageQueue::wait(const Job& job) {
  for (advance(); !job.is_done; advance()) {
    // While it waits, polling advances all queues: this job may be past that request when wait() returns, or done.
    const JobHandle first = jobs_.front();
    if (first->num_done < first->requests.size()) first->requests[first->num_done]->wait();
  }
}

}  // namespace optimus::two_level
