#include "optimus/comm/watched/watched.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "optimus/base/timer.hpp"
#include "optimus/tensor/nonfinite.hpp"

namespace optimus {

void TransferWatch::look_at(const Communicator& group, const char* transfer, ConstView data, Index first_for_others) {
  if (!is_looking_ || group.size() == 1) return;
  ++order_;
  const bool is_floating = data.dtype() == DType::kF32 || data.dtype() == DType::kBF16 || data.dtype() == DType::kF64;
  if (!is_floating || data.count() == 0) return;
  if (spoil_ && first_for_others < data.count()) {
    set_number(View(const_cast<std::byte*>(data.data()), data.dtype(), {data.count()}), first_for_others, *spoil_);
    spoil_.reset();
  }
  if (sent_) return;  // whatever follows only spreads it
  const Timer timer;
  const NonFiniteKind kind = find_nonfinite(data);
  looked_s_ += timer.seconds();
  if (kind != NonFiniteKind::kNone)
    sent_ = Sent{.order = order_, .is_nan = kind == NonFiniteKind::kNan, .transfer = fmt::format("{} over {}", transfer, group.name())};
}

namespace {

/// Adds the time of a scope to what was waited, also if it ends by an exception.
class Waiting {
 public:
  explicit Waiting(TransferWatch& watch) : watch_(watch) {}
  ~Waiting() { watch_.add_waited(timer_.seconds()); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  TransferWatch& watch_;
  Timer timer_;
};

class WatchedRequest final : public Request {
 public:
  WatchedRequest(TransferWatch& watch, std::unique_ptr<Request> inner) : watch_(watch), inner_(std::move(inner)) {}
  void wait() override {
    const Waiting waiting(watch_);
    inner_->wait();
  }
  [[nodiscard]] bool test() override { return inner_->test(); }

 private:
  TransferWatch& watch_;
  std::unique_ptr<Request> inner_;
};

bool is_of_the_model(std::string_view name) { return name == "tp" || name == "ep"; }

class Watched final : public Communicator {
 public:
  Watched(Communicator& inner, TransferWatch& watch, bool looks) : inner_(inner), watch_(watch), looks_(looks || is_of_the_model(inner.name())) {}
  Watched(std::unique_ptr<Communicator> inner, TransferWatch& watch, bool looks) : Watched(*inner, watch, looks) { owned_ = std::move(inner); }

  [[nodiscard]] Index rank() const override { return inner_.rank(); }
  [[nodiscard]] Index size() const override { return inner_.size(); }
  [[nodiscard]] const std::string& name() const override { return inner_.name(); }
  [[nodiscard]] bool is_dry() const override { return inner_.is_dry(); }

  void all_reduce(View data, Reduce reduce) override {
    look("all_reduce", data);
    const Waiting waiting(watch_);
    inner_.all_reduce(data, reduce);
  }
  void reduce_scatter(ConstView input, View output) override {
    look("reduce_scatter", input, after_own_part(input.count() / size()));
    const Waiting waiting(watch_);
    inner_.reduce_scatter(input, output);
  }
  void all_gather(ConstView input, View output) override {
    look("all_gather", input);
    const Waiting waiting(watch_);
    inner_.all_gather(input, output);
  }
  void all_gather_v(ConstView input, View output, std::span<const Index> counts) override {
    look("all_gather", input);
    const Waiting waiting(watch_);
    inner_.all_gather_v(input, output, counts);
  }
  void all_to_all_v(ConstView input, std::span<const Index> send_counts, View output, std::span<const Index> recv_counts) override {
    look("all_to_all", input, first_for_others(send_counts));
    const Waiting waiting(watch_);
    inner_.all_to_all_v(input, send_counts, output, recv_counts);
  }
  void broadcast(View data, Index root) override {
    if (rank() == root) look("broadcast", data);
    const Waiting waiting(watch_);
    inner_.broadcast(data, root);
  }
  void send(ConstView data, Index to, int tag) override {
    look("send", data);
    const Waiting waiting(watch_);
    inner_.send(data, to, tag);
  }
  void receive(View data, Index from, int tag) override {
    const Waiting waiting(watch_);
    inner_.receive(data, from, tag);
  }
  void barrier() override {
    const Waiting waiting(watch_);
    inner_.barrier();
  }
  void poll() override { inner_.poll(); }
  void add_progress(Progress& progress) override { inner_.add_progress(progress); }
  void remove_progress(Progress& progress) noexcept override { inner_.remove_progress(progress); }

  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter(ConstView input, View output) override {
    look("reduce_scatter", input, after_own_part(input.count() / size()));
    return watched(inner_.start_reduce_scatter(input, output));
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather(ConstView input, View output) override {
    look("all_gather", input);
    return watched(inner_.start_all_gather(input, output));
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_reduce(View data, Reduce reduce) override {
    look("all_reduce", data);
    return watched(inner_.start_all_reduce(data, reduce));
  }
  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter_v(ConstView input, View output, std::span<const Index> counts, Reduce reduce) override {
    look("reduce_scatter", input, first_for_others(counts));
    return watched(inner_.start_reduce_scatter_v(input, output, counts, reduce));
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather_v(ConstView input, View output, std::span<const Index> counts) override {
    look("all_gather", input);
    return watched(inner_.start_all_gather_v(input, output, counts));
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_to_all_v(ConstView input, std::span<const Index> send_counts, View output,
                                                            std::span<const Index> recv_counts) override {
    look("all_to_all", input, first_for_others(send_counts));
    return watched(inner_.start_all_to_all_v(input, send_counts, output, recv_counts));
  }
  [[nodiscard]] std::unique_ptr<Request> start_send(ConstView data, Index to, int tag) override {
    look("send", data);
    return watched(inner_.start_send(data, to, tag));
  }
  [[nodiscard]] std::unique_ptr<Request> start_receive(View data, Index from, int tag) override { return watched(inner_.start_receive(data, from, tag)); }

  [[nodiscard]] std::unique_ptr<Communicator> split(Index color, Index key, std::string name) override {
    return watch_too(inner_.split(color, key, std::move(name)));
  }
  [[nodiscard]] std::unique_ptr<Communicator> split_by_node() override { return watch_too(inner_.split_by_node()); }
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(std::span<const Index> members, std::string name) override {
    return watch_too(inner_.subgroup(members, std::move(name)));
  }
  void set_context(std::string context) override { inner_.set_context(std::move(context)); }
  void announce_failure() noexcept override { inner_.announce_failure(); }

 private:
  void look(const char* transfer, ConstView data, Index first = 0) {
    if (looks_) watch_.look_at(*this, transfer, data, first);
  }
  /// The first element that goes to another member, of equal parts and of others.
  [[nodiscard]] Index after_own_part(Index part) const { return rank() == 0 ? part : 0; }
  [[nodiscard]] Index first_for_others(std::span<const Index> counts) const { return rank() == 0 ? counts.front() : 0; }
  [[nodiscard]] std::unique_ptr<Request> watched(std::unique_ptr<Request> request) const {
    return std::make_unique<WatchedRequest>(watch_, std::move(request));
  }
  [[nodiscard]] std::unique_ptr<Communicator> watch_too(std::unique_ptr<Communicator> group) const {
    return std::make_unique<Watched>(std::move(group), watch_, looks_);
  }

  std::unique_ptr<Communicator> owned_;  ///< null for the group that was given
  Communicator& inner_;
  TransferWatch& watch_;
  bool looks_;
};

}  // namespace

std::unique_ptr<Communicator> make_watched_communicator(Communicator& inner, TransferWatch& watch) { return std::make_unique<Watched>(inner, watch, false); }

}  // namespace optimus
