#pragma once
// A stand-in for a model: each chunk is a map of whole numbers, so that any wrong, missing, doubled or misplaced message and any other order shows.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "optimus/pipeline/stage_work.hpp"

namespace optimus::pipeline::test {

inline constexpr Index kModulus = 1'000'003;

/// Rows of `width` numbers forward, twice as many backward: the formats may differ.
inline MessageFormats formats(Index width) { return {.forward = {DType::kI64, {1, width}, 3}, .backward = {DType::kI64, {2, width}, 1}}; }

/// Chunk g of G: y = 3x + g + 1, dx = 5 dy + x + g for both rows, and of its weights w = 31 w + Σ dx·x + micro-batch, which depends on the order.
struct ToyChunk {
  Index g = 0;
  [[nodiscard]] Index forward(Index x) const { return (3 * x + g + 1) % kModulus; }
  [[nodiscard]] Index backward(Index dy, Index x) const { return (5 * dy + x + g) % kModulus; }
  [[nodiscard]] static Index add_weight(Index w, Index sum, Index micro_batch) { return (31 * w + sum + micro_batch) % kModulus; }
};
inline Index toy_input(Index micro_batch, Index i) { return (micro_batch * 7919 + i * 13 + 1) % kModulus; }

/// The weights of all chunks after a run, chunk by chunk without a pipeline.
inline std::vector<Index> toy_weights(Index num_chunks, Index micro_batches, Index width) {
  std::vector<Index> weights(static_cast<std::size_t>(num_chunks), 0);
  for (Index m = 0; m < micro_batches; ++m) {
    std::vector<std::vector<Index>> x(static_cast<std::size_t>(num_chunks) + 1, std::vector<Index>(static_cast<std::size_t>(width)));
    for (Index i = 0; i < width; ++i) x[0][static_cast<std::size_t>(i)] = toy_input(m, i);
    for (Index g = 0; g < num_chunks; ++g)
      for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i)
        x[static_cast<std::size_t>(g) + 1][i] = ToyChunk{g}.forward(x[static_cast<std::size_t>(g)][i]);
    std::vector<Index> dy[2] = {x.back(), x.back()};  // the loss: dy = y in the first row, y + 1 in the second
    for (Index& value : dy[1]) value += 1;
    for (Index g = num_chunks; g-- > 0;) {
      Index sum = 0;
      for (auto& row : dy)
        for (std::size_t i = 0; i < row.size(); ++i) {
          const Index own = x[static_cast<std::size_t>(g)][i];
          row[i] = ToyChunk{g}.backward(row[i], own);
          sum = (sum + row[i] * own) % kModulus;
        }
      Index& w = weights[static_cast<std::size_t>(g)];
      w = ToyChunk::add_weight(w, sum, m);
    }
  }
  return weights;
}

class ToyWork : public StageWork {
 public:
  ToyWork(const Schedule& schedule, Index stage, Index width) : s_(schedule), stage_(stage), width_(width) {
    for (Index chunk = 0; chunk < s_.virtual_stages; ++chunk) {
      slots_.emplace_back(static_cast<std::size_t>(s_.slots(stage, chunk)));
      weights.push_back(0);
    }
  }

  void forward(const Action& a, const StageMessage& received, const StageMessage& sent) override {
    before(a);
    Slot& slot = slot_of(a);
    if (slot.micro_batch >= 0) FAIL() << "slot " << a.slot << " still holds micro-batch " << slot.micro_batch;
    slot = {s_.is_forward_only() ? -1 : a.micro_batch, std::vector<Index>(static_cast<std::size_t>(width_)), 0};
    EXPECT_EQ(received.rows.exists(), !is_first(a));
    EXPECT_EQ(sent.rows.exists(), !is_last(a));
    for (Index i = 0; i < width_; ++i) {
      slot.x[static_cast<std::size_t>(i)] = is_first(a) ? toy_input(a.micro_batch, i) : received.rows.as<std::int64_t>()[i];
      const Index y = ToyChunk{chunk(a)}.forward(slot.x[static_cast<std::size_t>(i)]);
      if (is_last(a)) outputs.push_back(y);
      else sent.rows.as<std::int64_t>()[i] = y;
    }
    pass_counts(a, received, sent);
  }

  void backward(const Action& a, const StageMessage& received, const StageMessage& sent) override {
    before(a);
    input_part(a, received, sent);
    weight_part(a);
  }
  void backward_input(const Action& a, const StageMessage& received, const StageMessage& sent) override {
    before(a);
    input_part(a, received, sent);
  }
  void backward_weight(const Action& a) override {
    before(a);
    weight_part(a);
  }

  std::vector<Index> weights;  ///< [chunk]
  std::vector<Index> outputs;  ///< of the model's last chunk, in order
  std::vector<Action> calls;

 protected:
  /// Runs before each action.
  virtual void before(const Action& a) { calls.push_back(a); }

 private:
  struct Slot {
    Index micro_batch = -1;
    std::vector<Index> x;
    Index sum = 0;
  };
  [[nodiscard]] Index chunk(const Action& a) const { return s_.global_chunk(stage_, a.chunk); }
  [[nodiscard]] bool is_first(const Action& a) const { return chunk(a) == 0; }
  [[nodiscard]] bool is_last(const Action& a) const { return chunk(a) == s_.num_chunks() - 1; }
  [[nodiscard]] Slot& slot_of(const Action& a) { return slots_.at(static_cast<std::size_t>(a.chunk)).at(static_cast<std::size_t>(a.slot)); }

  /// Forward, each chunk adds what tells it from others; the last one finds the sums over all. Backward, their total comes back.
  void pass_counts(const Action& a, const StageMessage& received, const StageMessage& sent) {
    for (Index i = 0; i < 3; ++i) {
      const Index before_us = is_first(a) ? 0 : received.counts.as<std::int64_t>()[i], sum = before_us + (chunk(a) + 1) * (i + 1) + a.micro_batch;
      if (is_last(a)) {
        EXPECT_EQ(sum, total_count(i, a.micro_batch));
      } else {
        sent.counts.as<std::int64_t>()[i] = sum;
      }
    }
  }
  [[nodiscard]] Index total_count(Index i, Index micro_batch) const {
    const Index G = s_.num_chunks();
    return G * (G + 1) / 2 * (i + 1) + G * micro_batch;
  }

  void input_part(const Action& a, const StageMessage& received, const StageMessage& sent) {
    Slot& slot = slot_of(a);
    EXPECT_EQ(slot.micro_batch, a.micro_batch);
    EXPECT_EQ(received.rows.exists(), !is_last(a));
    EXPECT_EQ(sent.rows.exists(), !is_first(a));
    for (Index n = 0; n < 2 * width_; ++n) {
      const Index row = n / width_, i = n % width_, x = slot.x[static_cast<std::size_t>(i)];
      const Index dy = is_last(a) ? ToyChunk{chunk(a)}.forward(x) + row : received.rows.as<std::int64_t>()[n];
      const Index dx = ToyChunk{chunk(a)}.backward(dy, x);
      if (!is_first(a)) sent.rows.as<std::int64_t>()[n] = dx;
      slot.sum = (slot.sum + dx * x) % kModulus;
    }
    if (!is_last(a)) {
      EXPECT_EQ(received.counts.as<std::int64_t>()[0], total_count(0, a.micro_batch));
    }
    if (!is_first(a)) sent.counts.as<std::int64_t>()[0] = total_count(0, a.micro_batch);
  }
  void weight_part(const Action& a) {
    Slot& slot = slot_of(a);
    EXPECT_EQ(slot.micro_batch, a.micro_batch);
    Index& w = weights[static_cast<std::size_t>(a.chunk)];
    w = ToyChunk::add_weight(w, slot.sum, a.micro_batch);
    slot = {};
  }

  const Schedule& s_;
  Index stage_, width_;
  std::vector<std::vector<Slot>> slots_;  ///< [chunk][slot]
};

/// Takes its time, now this and now that.
class SlowWork : public ToyWork {
 public:
  SlowWork(const Schedule& schedule, Index stage, Index width) : ToyWork(schedule, stage, width), seed_(static_cast<std::uint64_t>(stage) * 977 + 1) {}

 protected:
  void before(const Action& a) override {
    ToyWork::before(a);
    seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL;
    if ((seed_ >> 60) < 6) std::this_thread::sleep_for(std::chrono::microseconds((seed_ >> 40) % 700));
  }

 private:
  std::uint64_t seed_;
};

}  // namespace optimus::pipeline::test
