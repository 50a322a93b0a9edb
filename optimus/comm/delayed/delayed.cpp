#include "optimus/comm/delayed/delayed.hpp"

#include "optimus/comm/arguments.hpp"
#include "optimus/comm/delayed/line.hpp"

namespace optimus {
namespace {

using delayed::Book;
using delayed::Clock;
using delayed::Line;
using delayed::Moment;

/// A transfer that is really done when `inner` is, and seems so from `due` on.
class DelayedRequest final : public Request {
 public:
  DelayedRequest(Communicator& comm, Line& line, std::unique_ptr<Request> inner, Moment due) : comm_(comm), line_(line), inner_(std::move(inner)), due_(due) {}
  void wait() override {
    inner_->wait();
    delayed::wait_until(comm_, line_, due_);
  }
  [[nodiscard]] bool test() override { return inner_->test() && Clock::now() >= due_; }

 private:
  Communicator& comm_;
  Line& line_;
  std::unique_ptr<Request> inner_;
  Moment due_;
};

View view_of(Clock::rep& stamp) { return {reinterpret_cast<std::byte*>(&stamp), DType::kU8, {static_cast<Index>(sizeof stamp)}}; }

/// A message in two: when it is due, then itself.
class StampedSend final : public Request {
 public:
  StampedSend(Communicator& comm, Line& line, ConstView data, Index to, int tag, Moment due)
      : comm_(comm), line_(line), stamp_(due.time_since_epoch().count()), due_(due) {
    stamp_request_ = comm.start_send(view_of(stamp_), to, tag);
    data_request_ = comm.start_send(data, to, tag);
  }
  void wait() override {
    stamp_request_->wait();
    data_request_->wait();
    delayed::wait_until(comm_, line_, due_);
  }
  [[nodiscard]] bool test() override { return stamp_request_->test() && data_request_->test() && Clock::now() >= due_; }

 private:
  Communicator& comm_;
  Line& line_;
  Clock::rep stamp_;
  Moment due_;
  std::unique_ptr<Request> stamp_request_, data_request_;
};

class StampedReceive final : public Request {
 public:
  StampedReceive(Communicator& comm, Line& line, View data, Index from, int tag) : comm_(comm), line_(line) {
    stamp_request_ = comm.start_receive(view_of(stamp_), from, tag);
    data_request_ = comm.start_receive(data, from, tag);
  }
  void wait() override {
    stamp_request_->wait();
    data_request_->wait();
    delayed::wait_until(comm_, line_, due());
  }
  [[nodiscard]] bool test() override { return stamp_request_->test() && data_request_->test() && Clock::now() >= due(); }

 private:
  [[nodiscard]] Moment due() const { return Moment(Clock::duration(stamp_)); }
  Communicator& comm_;
  Line& line_;
  Clock::rep stamp_ = 0;
  std::unique_ptr<Request> stamp_request_, data_request_;
};

class Decorator final : public DelayedCommunicator {
 public:
  Decorator(Communicator& inner, std::shared_ptr<Book> book) : inner_(inner), book_(std::move(book)), line_(*book_, inner.name()) {}
  Decorator(std::unique_ptr<Communicator> inner, std::shared_ptr<Book> book) : Decorator(*inner, std::move(book)) { owned_ = std::move(inner); }

  [[nodiscard]] Index rank() const override { return inner_.rank(); }
  [[nodiscard]] Index size() const override { return inner_.size(); }
  [[nodiscard]] const std::string& name() const override { return inner_.name(); }
  [[nodiscard]] bool is_dry() const override { return inner_.is_dry(); }
  [[nodiscard]] std::vector<DelayTotals> totals() const override { return book_->all(); }

  void all_reduce(View data, Reduce reduce) override { start_all_reduce(data, reduce)->wait(); }
  void reduce_scatter(ConstView input, View output) override { start_reduce_scatter(input, output)->wait(); }
  void all_gather(ConstView input, View output) override { start_all_gather(input, output)->wait(); }
  void all_gather_v(ConstView input, View output, std::span<const Index> counts) override { start_all_gather_v(input, output, counts)->wait(); }
  void all_to_all_v(ConstView input, std::span<const Index> send_counts, View output, std::span<const Index> recv_counts) override {
    start_all_to_all_v(input, send_counts, output, recv_counts)->wait();
  }
  void broadcast(View data, Index root) override {
    delay(data.bytes(), [&] { inner_.broadcast(data, root); });
  }
  void send(ConstView data, Index to, int tag) override { start_send(data, to, tag)->wait(); }
  void receive(View data, Index from, int tag) override { start_receive(data, from, tag)->wait(); }
  void barrier() override {
    delay(0, [&] { inner_.barrier(); });
  }
  void poll() override { inner_.poll(); }
  void add_progress(Progress& progress) override { inner_.add_progress(progress); }
  void remove_progress(Progress& progress) noexcept override { inner_.remove_progress(progress); }

  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter(ConstView input, View output) override {
    return start_delayed(input.bytes() / size() * (size() - 1), [&] { return inner_.start_reduce_scatter(input, output); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather(ConstView input, View output) override {
    return start_delayed(input.bytes() * (size() - 1), [&] { return inner_.start_all_gather(input, output); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_reduce(View data, Reduce reduce) override {
    return start_delayed(2 * (data.bytes() - data.bytes() / size()), [&] { return inner_.start_all_reduce(data, reduce); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter_v(ConstView input, View output, std::span<const Index> counts, Reduce reduce) override {
    return start_delayed(input.bytes() - output.bytes(), [&] { return inner_.start_reduce_scatter_v(input, output, counts, reduce); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather_v(ConstView input, View output, std::span<const Index> counts) override {
    arguments::check_all_gather_v(*this, input, output, counts);
    const Index left_out = counts[static_cast<std::size_t>((rank() + 1) % size())];
    return start_delayed(output.bytes() - left_out * dtype_bytes(output.dtype()), [&] { return inner_.start_all_gather_v(input, output, counts); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_to_all_v(ConstView input, std::span<const Index> send_counts, View output,
                                                            std::span<const Index> recv_counts) override {
    arguments::check_all_to_all_v(*this, input, send_counts, output, recv_counts);
    const Index kept = send_counts[static_cast<std::size_t>(rank())];
    return start_delayed(input.bytes() - kept * dtype_bytes(input.dtype()), [&] { return inner_.start_all_to_all_v(input, send_counts, output, recv_counts); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_send(ConstView data, Index to, int tag) override {
    if (to == rank()) return inner_.start_send(data, to, tag);
    arguments::check_member(*this, "send", to);
    return std::make_unique<StampedSend>(inner_, line_, data, to, tag, line_.send(static_cast<double>(data.bytes())));
  }
  [[nodiscard]] std::unique_ptr<Request> start_receive(View data, Index from, int tag) override {
    if (from == rank()) return inner_.start_receive(data, from, tag);
    auto request = std::make_unique<StampedReceive>(inner_, line_, data, from, tag);
    line_.count(static_cast<double>(data.bytes()));
    return request;
  }

  [[nodiscard]] std::unique_ptr<Communicator> split(Index color, Index key, std::string name) override {
    return decorate(inner_.split(color, key, std::move(name)));
  }
  [[nodiscard]] std::unique_ptr<Communicator> split_by_node() override { return decorate(inner_.split_by_node()); }
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(std::span<const Index> members, std::string name) override {
    return decorate(inner_.subgroup(members, std::move(name)));
  }
  void set_context(std::string context) override { inner_.set_context(std::move(context)); }
  void announce_failure() noexcept override { inner_.announce_failure(); }

 private:
  [[nodiscard]] std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) const {
    return std::make_unique<Decorator>(std::move(group), book_);
  }
  /// When a collective in which this rank sends `bytes` may be over, from now.
  [[nodiscard]] Moment put_on_line(Index bytes) {
    line_.count(static_cast<double>(bytes));
    return line_.send(static_cast<double>(bytes));
  }
  template <class Action> void delay(Index bytes, Action&& action) {
    if (size() == 1) return action();
    const Moment due = put_on_line(bytes);
    action();
    delayed::wait_until(inner_, line_, due);
  }
  template <class Start> std::unique_ptr<Request> start_delayed(Index bytes, Start&& start) {
    if (size() == 1) return start();
    const Moment due = put_on_line(bytes);
    return std::make_unique<DelayedRequest>(inner_, line_, start(), due);
  }

  std::unique_ptr<Communicator> owned_;  ///< null for the group that was decorated
  Communicator& inner_;
  std::shared_ptr<Book> book_;  ///< of all groups that came from one
  Line line_;
};

}  // namespace

std::unique_ptr<DelayedCommunicator> make_delayed_communicator(Communicator& inner, LinkRule rule) {
  return std::make_unique<Decorator>(inner, std::make_shared<Book>(std::move(rule)));
}

std::unique_ptr<DelayedCommunicator> make_delayed_communicator(std::unique_ptr<Communicator> inner, LinkRule rule) {
  return std::make_unique<Decorator>(std::move(inner), std::make_shared<Book>(std::move(rule)));
}

}  // namespace optimus
