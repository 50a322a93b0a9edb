// Checkpoints: bytes a second against a plain sequential write of the same bytes in the same run, and what saving in the background takes from training.
//
//   mpirun -n 2 build/bench/bench_checkpoint FOLDER [MiB of state a rank]
//
// A plain write is one file a rank, in blocks of 1 MiB, synced. A checkpoint is that and checksums, the search for NaN, and reading all back.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "optimus/base/file.hpp"
#include "optimus/base/median.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/checkpoint/async_writer.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus::bench {
namespace {

constexpr Index kBlock = Index{1} << 20;

/// Seconds on the slowest rank.
template <class Action> double slowest(Communicator& world, Action&& action) {
  world.barrier();
  const Timer timer;
  action();
  double seconds = timer.seconds();
  world.all_reduce(View(reinterpret_cast<std::byte*>(&seconds), DType::kF64, {1}), Reduce::kMax);
  return seconds;
}

void write_plainly(const std::filesystem::path& path, ConstView data) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (Index at = 0; at < data.bytes(); at += kBlock) {
    const auto size = static_cast<std::size_t>(std::min(kBlock, data.bytes() - at));
    if (::write(file, data.data() + at, size) != static_cast<ssize_t>(size)) std::abort();
  }
  if (::fsync(file) != 0) std::abort();
  ::close(file);
  std::filesystem::remove(path);
}

/// Arithmetic of some milliseconds that stays in the cache: a step's computing.
double compute_step() {
  static std::vector<double> values(1 << 12, 1.0);
  for (int round = 0; round < 1200; ++round) {
    for (double& value : values) value = value * 0.999 + 0.001;
  }
  return values[7];
}

class Bench {
 public:
  Bench(Communicator& world, const std::filesystem::path& folder, Index bytes) : world_(world), folder_(folder), state_(bytes) {
    const Index count = bytes / 4;
    std::fill_n(reinterpret_cast<float*>(state_.data()), count, 0.5F);
    chunk_ = {.name = "model.rows.{}.weight",
              .global_shape = {world.size(), count},
              .box = {.begin = {world.rank(), 0}, .shape = {1, count}},
              .flat_begin = 0,
              .data = View(state_.data(), DType::kF32, {count})};
    info_.hf_config = "{}";
    if (world.rank() == 0) make_folders(folder);
    world.barrier();
  }
  ~Bench() {
    world_.barrier();
    if (world_.rank() == 0) std::filesystem::remove_all(folder_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Alternates, so that both meet the same disk. Returns the shorter time of a checkpoint.
  double compare(int rounds) {
    double plain = 1e30, checkpoint = 1e30;
    for (int round = 0; round < rounds; ++round) {
      plain = std::min(plain, slowest(world_, [&] { write_plainly(folder_ / fmt::format("plain-{}", world_.rank()), chunk_.data); }));
      checkpoint = std::min(checkpoint, slowest(world_, [&] { write_checkpoint(world_, folder_ / "slot-0", info_, {&chunk_, 1}); }));
    }
    const double bytes = static_cast<double>(state_.bytes() * world_.size());
    say("plain {:.3f} GB/s, checkpoint {:.3f} GB/s, ratio {:.2f}", 1e-9 * bytes / plain, 1e-9 * bytes / checkpoint, plain / checkpoint);
    const double load = slowest(world_, [&] { (void)read_checkpoint(world_, folder_ / "slot-0", {&chunk_, 1}); });
    say("load, verified {:.3f} GB/s", 1e-9 * bytes / load);
    return checkpoint;
  }

  /// Steps for ten times `write_s`, in turn without saving and with one save in the background. Counted in the processor time of the thread that trains, so
  /// that other programs do not count; what the thread that writes takes is given beside it.
  void train(double write_s) {
    AsyncCheckpointWriter writer(world_);
    writer.start(folder_ / "slot-1", info_, {&chunk_, 1});  // the buffer is kept from here on
    (void)writer.finish();
    const double interval = 10 * write_s;
    std::vector<double> alone, saving, start, poll, writing;
    for (int round = 0; round < 9; ++round) {
      alone.push_back(steps(interval, [] {}, writer));
      const double all = seconds_of(CLOCK_PROCESS_CPUTIME_ID), own = seconds_of(CLOCK_THREAD_CPUTIME_ID);
      saving.push_back(steps(
          interval,
          [&] {
            const Timer timer;
            writer.start(folder_ / "slot-1", info_, {&chunk_, 1});
            start.push_back(timer.seconds());
          },
          writer));
      poll.push_back(std::exchange(longest_poll_s_, 0));
      (void)writer.finish();
      writing.push_back(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - all - (seconds_of(CLOCK_THREAD_CPUTIME_ID) - own));
    }
    say("a save every {:.1f} s: it begins in {:.4f} s, most of it the copy, the longest look at it later takes {:.4f} s", interval, lower_median(start),
        lower_median(poll));
    say("{:.0f} steps/s without, {:.0f} with: slowed by {:.1f} %; the writing thread takes {:.1f} % of a core", lower_median(alone), lower_median(saving),
        100 * (1 - lower_median(saving) / lower_median(alone)), 100 * lower_median(writing) / interval);
  }

 private:
  static double seconds_of(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  /// Steps a second, with the polls of a run, after `first`.
  template <class First> double steps(double seconds, First&& first, AsyncCheckpointWriter& writer) {
    const Timer timer;
    const double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    first();
    Index count = 0;
    double go_on = 1;
    while (go_on > 0) {
      sink_ += compute_step();
      ++count;
      const Timer waiting;
      (void)writer.poll();
      longest_poll_s_ = std::max(longest_poll_s_, waiting.seconds());
      go_on = timer.seconds() < seconds ? 1 : 0;
      world_.all_reduce(View(reinterpret_cast<std::byte*>(&go_on), DType::kF64, {1}), Reduce::kMin);
    }
    return static_cast<double>(count) / (seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin);
  }
  template <class... Args> void say(fmt::format_string<Args...> format, Args&&... args) const {
    if (world_.rank() == 0) fmt::print("{}\n", fmt::format(format, std::forward<Args>(args)...));
  }

  Communicator& world_;
  std::filesystem::path folder_;
  Buffer state_;
  Chunk chunk_;
  CheckpointInfo info_;
  double sink_ = 0, longest_poll_s_ = 0;
};

}  // namespace
}  // namespace optimus::bench

int main(int argc, char** argv) {
  using namespace optimus;
  if (argc < 2) return 2;
  MpiEnvironment mpi;
  {
    const auto world = mpi.world();
    const Index mebibytes = argc > 2 ? std::atoll(argv[2]) : 256;
    bench::Bench bench(*world, std::filesystem::path(argv[1]) / "optimus-bench-checkpoint", mebibytes << 20);
    bench.train(bench.compare(6));
  }
  mpi.close();
}
