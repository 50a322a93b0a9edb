#include "optimus/train/heartbeats.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "optimus/base/file.hpp"
#include "optimus/base/log.hpp"
#include "optimus/base/timer.hpp"

namespace optimus {
namespace {

std::int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double wall_clock_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Of one rank, on a cache line of its own. Fields are written one by one: a reader may see a step's number beside the place before, never a torn number.
struct alignas(64) Beat {
  std::atomic<std::int64_t> sign_ns, rank, step, activity, micro_batch;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "shared between processes");

/// Memory of a node's ranks under a name that is gone as soon as all of them have it.
class SharedBeats {
 public:
  explicit SharedBeats(Communicator& node) : bytes_(static_cast<std::size_t>(node.size()) * sizeof(Beat)) {
    // By chance, not by process id alone: containers that share /dev/shm count their processes apart.
    std::random_device chance;
    const std::string name = broadcast_text(node, fmt::format("/optimus-heartbeats-{}-{:08x}{:08x}", ::getpid(), chance(), chance()), 0);
    agree(node, [&] {
      if (node.rank() == 0) open(name, O_CREAT | O_EXCL | O_RDWR);
    });
    agree(node, [&] {
      if (node.rank() != 0) open(name, O_RDWR);
    });
    if (node.rank() == 0) ::shm_unlink(name.c_str());
  }
  ~SharedBeats() {
    if (beats_ != nullptr) ::munmap(beats_, bytes_);
  }
  SharedBeats(const SharedBeats&) = delete;
  SharedBeats& operator=(const SharedBeats&) = delete;
  [[nodiscard]] Beat& operator[](Index member) const { return beats_[member]; }

 private:
  void open(const std::string& name, int flags) {
    const int file = ::shm_open(name.c_str(), flags, S_IRUSR | S_IWUSR);
    if (file < 0) refuse(name);
    if ((flags & O_CREAT) != 0 && ::ftruncate(file, static_cast<off_t>(bytes_)) != 0) {
      ::shm_unlink(name.c_str());
      refuse(name);
    }
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) refuse(name);
    beats_ = static_cast<Beat*>(memory);
  }
  [[noreturn]] static void refuse(const std::string& name) {
    throw FileError(
        fmt::format("[train] no shared memory {} for the ranks' signs of life: {}; is /dev/shm there, and has it room?", name, std::strerror(errno)));
  }
  std::size_t bytes_;
  Beat* beats_ = nullptr;
};

}  // namespace

std::string describe(const RankPlace& place) {
  if (place.activity == Activity::kStart) return "start-up";
  const std::string text = fmt::format("step {}, {}", place.step, activity_name(place.activity));
  return place.micro_batch >= 0 ? text + fmt::format(" of micro-batch {}", place.micro_batch) : text;
}

void write_node_heartbeats(const std::filesystem::path& file, const std::vector<RankPlace>& places, double now_s) {
  std::string text;
  for (const RankPlace& p : places)
    text += fmt::format("{} {} {} {} {:.3f}\n", p.rank, p.step, static_cast<int>(p.activity), p.micro_batch, now_s - p.silent_s);
  write_file_atomically(file, text);
}

std::vector<RankPlace> read_node_heartbeats(const std::filesystem::path& file, double now_s) {
  std::vector<RankPlace> places;
  std::ifstream in(file);
  RankPlace p;
  double sign_s = 0;
  for (int activity = 0; in >> p.rank >> p.step >> activity >> p.micro_batch >> sign_s;) {
    if (activity < 0 || activity >= static_cast<int>(kActivityNames.size())) return {};
    p.activity = static_cast<Activity>(activity);
    p.silent_s = now_s - sign_s;
    places.push_back(p);
  }
  return places;
}

struct Heartbeats::State {
  Communicator& world;
  std::unique_ptr<Communicator> node;
  SharedBeats beats;
  std::filesystem::path folder;
  double interval_s;
  Index first_rank = 0;            ///< of this node
  std::vector<Index> other_nodes;  ///< their first ranks
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  std::thread writer;

  State(Communicator& w, const std::filesystem::path& run_dir, double interval)
      : world(w), node(w.split_by_node()), beats(*node), folder(run_dir / "heartbeats"), interval_s(interval) {
    Beat& mine = beats[node->rank()];
    mine.rank = world.rank();
    mine.step = 0;
    mine.activity = static_cast<int>(Activity::kStart);
    mine.micro_batch = -1;
    mine.sign_ns = now_ns();
    node->barrier();
    first_rank = beats[0].rank;
    std::vector<Index> firsts(static_cast<std::size_t>(world.size()));
    world.all_gather({reinterpret_cast<const std::byte*>(&first_rank), DType::kI64, {1}},
                     {reinterpret_cast<std::byte*>(firsts.data()), DType::kI64, {world.size()}});
    std::sort(firsts.begin(), firsts.end());
    firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
    std::erase(firsts, first_rank);
    other_nodes = firsts;
  }
  ~State() {
    {
      const std::lock_guard lock(mutex);
      is_over = true;
    }
    changed.notify_all();
    if (writer.joinable()) writer.join();
  }

  [[nodiscard]] std::filesystem::path file_of(Index first) const { return folder / fmt::format("node-{}", first); }

  [[nodiscard]] std::vector<RankPlace> of_node() const {
    std::vector<RankPlace> places;
    const std::int64_t now = now_ns();
    for (Index member = 0; member < node->size(); ++member) {
      const Beat& beat = beats[member];
      places.push_back({.rank = beat.rank,
                        .step = beat.step,
                        .activity = static_cast<Activity>(beat.activity.load()),
                        .micro_batch = beat.micro_batch,
                        .silent_s = 1e-9 * static_cast<double>(now - beat.sign_ns)});
    }
    return places;
  }

  /// The body of the thread. A folder that cannot be written makes other nodes take this one for silent; that is said once.
  void write_on() {
    bool has_warned = false;
    std::unique_lock lock(mutex);
    while (!is_over) {
      try {
        make_folders(folder);
        write_node_heartbeats(file_of(first_rank), of_node(), wall_clock_s());
      } catch (const std::exception& error) {
        if (!has_warned) log_warning("[train] signs of life are not written: {}", error.what());
        has_warned = true;
      }
      changed.wait_for(lock, waiting_time(interval_s), [this] { return is_over; });
    }
  }
};

Heartbeats::Heartbeats(Communicator& world, const std::filesystem::path& run_dir, double interval_s)
    : state_(std::make_unique<State>(world, run_dir, interval_s)) {
  world.add_progress(*this);
}
Heartbeats::~Heartbeats() { state_->world.remove_progress(*this); }

void Heartbeats::start_writing() {
  State& s = *state_;
  if (!s.other_nodes.empty() && s.node->rank() == 0) s.writer = std::thread([&s] { s.write_on(); });
}

void Heartbeats::advance() { state_->beats[state_->node->rank()].sign_ns.store(now_ns(), std::memory_order_relaxed); }

void Heartbeats::note(Index step, const Place& place) noexcept {
  Beat& mine = state_->beats[state_->node->rank()];
  mine.step.store(step, std::memory_order_relaxed);
  mine.activity.store(static_cast<int>(place.activity), std::memory_order_relaxed);
  mine.micro_batch.store(place.micro_batch, std::memory_order_relaxed);
  mine.sign_ns.store(now_ns(), std::memory_order_release);
}

RankPlace Heartbeats::mine() const { return state_->of_node()[static_cast<std::size_t>(state_->node->rank())]; }

std::vector<RankPlace> Heartbeats::all() const {
  std::vector<RankPlace> places = state_->of_node();
  for (const Index first : state_->other_nodes) {
    const auto others = read_node_heartbeats(state_->file_of(first), wall_clock_s());
    places.insert(places.end(), others.begin(), others.end());
  }
  return places;
}

std::vector<RankPlace> Heartbeats::silent(double at_least_s) const {
  std::vector<RankPlace> places = all();
  std::stable_sort(places.begin(), places.end(), [](const RankPlace& a, const RankPlace& b) { return a.silent_s > b.silent_s; });
  const double limit_s = places.empty() ? 0 : std::max(at_least_s, places.front().silent_s / 2);
  std::erase_if(places, [&](const RankPlace& p) { return p.silent_s < limit_s; });
  return places;
}

}  // namespace optimus
