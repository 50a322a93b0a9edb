#include "optimus/optim/reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "optimus/base/check.hpp"
#include "optimus/comm/while_set.hpp"
#include "optimus/ops/update.hpp"

namespace optimus {
namespace {

constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

}  // namespace

Reduction::Reduction(std::vector<BucketStorage>& buckets, const std::vector<ParamSpec>& specs, const Replicas& replicas, Backend& backend, bool overlap)
    : buckets_(buckets), specs_(specs), replicas_(replicas), backend_(backend), overlap_(overlap), states_(buckets.size()), waited_for_(kNobody) {
  restart();
  if (overlap_) replicas_.world().add_progress(*this);
}

Reduction::~Reduction() {
  if (overlap_) replicas_.world().remove_progress(*this);
}

void Reduction::restart() {
  OPTIMUS_CHECK(num_started_ == 0 || is_finished_, "a step was begun and neither reduced nor discarded");
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& s = states_[i];
    s.missing = buckets_[i].bucket.layers;
    s.is_checked = s.is_done = false;
    s.nonfinite.reset();
    s.local_squares = s.squares = 0;
    s.request.reset();
  }
  num_started_ = 0;
  is_finished_ = false;
}

void Reduction::complete(Index layer) {
  if (!overlap_) return;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const std::vector<Index>& layers = buckets_[i].bucket.layers;
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) continue;
    if (std::erase(states_[i].missing, layer) == 0)
      throw InternalError(fmt::format("[optim] the gradients of layer {} are said to be complete twice in one step", layer));
    // Now, and not when it starts: that may be in the middle of somebody's waiting.
    if (states_[i].missing.empty()) check(i);
  }
  advance();
}

/// Before the transfer, which overwrites the own shard with the sum.
void Reduction::check(std::size_t i) {
  State& s = states_[i];
  if (s.is_checked) return;
  s.is_checked = true;
  const BucketStorage& b = buckets_[i];
  s.local_squares = ops::sum_squares(backend_, b.gradients);
  if (std::isfinite(s.local_squares)) return;
  for (const BucketEntry& entry : b.bucket.entries) {
    const double squares = ops::sum_squares(backend_, b.gradient_of(entry));
    if (std::isfinite(squares)) continue;
    s.nonfinite = NonFinite{.name = specs_[static_cast<std::size_t>(entry.spec)].name, .is_nan = std::isnan(squares)};
    return;
  }
}

std::optional<Reduction::NonFinite> Reduction::find_nonfinite() {
  for (std::size_t i = num_started_; i < states_.size(); ++i) check(i);
  for (const State& s : states_)
    if (s.nonfinite) return s.nonfinite;
  return std::nullopt;
}

Index Reduction::num_under_way() {
  Index count = 0;
  for (std::size_t i = 0; i < num_started_; ++i) {
    State& s = states_[i];
    if (!s.is_done && i != waited_for_) s.is_done = s.request->test();
    count += s.is_done ? 0 : 1;
  }
  return count;
}

void Reduction::start_next() {
  State& s = states_[num_started_];
  s.request = replicas_.start_reduce(buckets_[num_started_]);
  s.is_done = s.request == nullptr;
  ++num_started_;
}

void Reduction::advance() {
  const auto can_start = [this] { return num_started_ < states_.size() && states_[num_started_].missing.empty(); };
  if (is_advancing_ || !can_start()) return;
  const WhileSet advancing(is_advancing_);
  for (Index under_way = num_under_way(); under_way < kReductionsUnderWay && can_start(); under_way += states_[num_started_ - 1].is_done ? 0 : 1) start_next();
}

void Reduction::wait(std::size_t i) {
  if (num_started_ == i) start_next();
  State& s = states_[i];
  if (!s.request) return;
  waited_for_ = i;
  s.request->wait();
  waited_for_ = kNobody;
  s.is_done = true;
}

void Reduction::add_squares(std::size_t i) {
  const BucketStorage& b = buckets_[i];
  State& s = states_[i];
  if (!b.bucket.is_owner) return;
  // Nobody added anything: the local gradients are the reduced ones.
  s.squares = replicas_.is_alone(b.bucket) && s.is_checked ? s.local_squares : ops::sum_squares(backend_, b.gradient_shard);
}

template <class Action> void Reduction::for_each_transfer(Action after) {
  for (State& s : states_) s.missing.clear();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (overlap_) advance();
    wait(i);
    after(i);
  }
  is_finished_ = true;
}

double Reduction::finish() {
  for_each_transfer([this](std::size_t i) {
    replicas_.reduce_rest(buckets_[i]);
    if (!buckets_[i].bucket.is_tied) add_squares(i);
  });
  // Last, because the other stage has its tied bucket at the other end of the order.
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!buckets_[i].bucket.is_tied) continue;
    replicas_.add_tied(buckets_[i]);
    add_squares(i);
  }
  double sum = 0;
  for (const State& s : states_) sum += s.squares;
  return sum;
}

void Reduction::drop() {
  // All of them: nobody knows how far the others have come.
  if (overlap_ && !is_finished_) for_each_transfer([](std::size_t) {});
}

}  // namespace optimus
