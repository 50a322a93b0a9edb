#include "optimus/comm/self/self.hpp"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "optimus/base/counted.hpp"
#include "optimus/comm/arguments.hpp"
#include "optimus/comm/local_reduce.hpp"

namespace optimus {
namespace {

class DoneRequest final : public Request {
 public:
  void wait() override {}
  [[nodiscard]] bool test() override { return true; }
};

void copy(ConstView from, View to) {
  if (from.bytes() > 0 && from.data() != to.data()) std::memmove(to.data(), from.data(), static_cast<std::size_t>(from.bytes()));
}

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] Index rank() const override { return 0; }
  [[nodiscard]] Index size() const override { return 1; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] bool is_dry() const override { return false; }

  void all_reduce(View data, Reduce) override { check_reducible(data.dtype()); }
  void reduce_scatter(ConstView input, View output) override {
    arguments::check_reduce_scatter(*this, input, output);
    check_reducible(input.dtype());
    copy(input, output);
  }
  void all_gather(ConstView input, View output) override {
    arguments::check_all_gather(*this, input, output);
    copy(input, output);
  }
  void all_gather_v(ConstView input, View output, std::span<const Index> counts) override {
    arguments::check_all_gather_v(*this, input, output, counts);
    copy(input, output);
  }
  void all_to_all_v(ConstView input, std::span<const Index> send_counts, View output, std::span<const Index> recv_counts) override {
    arguments::check_all_to_all_v(*this, input, send_counts, output, recv_counts);
    copy(input, output);
  }
  void broadcast(View, Index root) override { arguments::check_member(*this, "broadcast", root); }
  void send(ConstView data, Index to, int tag) override {
    arguments::check_member(*this, "send", to);
    arguments::check_tag(*this, tag);
    mail_[tag].emplace_back(data.data(), data.data() + data.bytes());
  }
  void receive(View data, Index from, int tag) override {
    arguments::check_member(*this, "receive", from);
    arguments::check_tag(*this, tag);
    if (!take(data, tag)) throw CommError(fmt::format("[comm] receive over {} (1 member){}: nothing was sent with tag {}", name_, suffix(), tag));
  }
  void barrier() override {}
  void poll() override {}
  void add_progress(Progress&) override {}  // nothing waits here
  void remove_progress(Progress&) noexcept override {}

  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter(ConstView input, View output) override {
    return done([&] { reduce_scatter(input, output); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather(ConstView input, View output) override {
    return done([&] { all_gather(input, output); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_reduce(View data, Reduce reduce) override {
    return done([&] { all_reduce(data, reduce); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter_v(ConstView input, View output, std::span<const Index> counts, Reduce) override {
    arguments::check_reduce_scatter_v(*this, input, output, counts);
    check_reducible(input.dtype());
    return done([&] { copy(input, output); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather_v(ConstView input, View output, std::span<const Index> counts) override {
    return done([&] { all_gather_v(input, output, counts); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_to_all_v(ConstView input, std::span<const Index> send_counts, View output,
                                                            std::span<const Index> recv_counts) override {
    return done([&] { all_to_all_v(input, send_counts, output, recv_counts); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_send(ConstView data, Index to, int tag) override {
    return done([&] { send(data, to, tag); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_receive(View data, Index from, int tag) override;

  [[nodiscard]] std::unique_ptr<Communicator> split(Index, Index, std::string name) override { return std::make_unique<SelfCommunicator>(std::move(name)); }
  [[nodiscard]] std::unique_ptr<Communicator> split_by_node() override { return std::make_unique<SelfCommunicator>("node"); }
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(std::span<const Index> members, std::string name) override {
    arguments::check_subgroup(*this, members);
    return std::make_unique<SelfCommunicator>(std::move(name));
  }
  void set_context(std::string context) override { context_ = std::move(context); }
  void announce_failure() noexcept override {}

  /// Moves the oldest message with `tag` to `data`; false if there is none.
  bool take(View data, int tag) {
    auto& queue = mail_[tag];
    if (queue.empty()) return false;
    const std::vector<std::byte> message = std::move(queue.front());
    queue.pop_front();
    if (static_cast<Index>(message.size()) != data.bytes())
      throw CommError(fmt::format("[comm] receive over {}{}: {} sent, {} expected", name_, suffix(), counted(message.size(), "byte"), data.bytes()));
    if (!message.empty()) std::memcpy(data.data(), message.data(), message.size());
    return true;
  }

 private:
  template <class Action> std::unique_ptr<Request> done(Action&& action) {
    action();
    return std::make_unique<DoneRequest>();
  }
  [[nodiscard]] std::string suffix() const { return context_.empty() ? "" : " at " + context_; }

  std::string name_, context_;
  std::map<int, std::deque<std::vector<std::byte>>> mail_;
};

class SelfReceive final : public Request {
 public:
  SelfReceive(SelfCommunicator& comm, View data, int tag) : comm_(comm), data_(data), tag_(tag) { is_done_ = comm.take(data, tag); }
  void wait() override {
    if (is_done_) return;
    comm_.receive(data_, 0, tag_);
    is_done_ = true;
  }
  [[nodiscard]] bool test() override {
    if (!is_done_) is_done_ = comm_.take(data_, tag_);
    return is_done_;
  }

 private:
  SelfCommunicator& comm_;
  View data_;
  int tag_;
  bool is_done_ = false;
};

std::unique_ptr<Request> SelfCommunicator::start_receive(View data, Index from, int tag) {
  arguments::check_member(*this, "receive", from);
  arguments::check_tag(*this, tag);
  return std::make_unique<SelfReceive>(*this, data, tag);
}

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(std::string name) { return std::make_unique<SelfCommunicator>(std::move(name)); }

}  // namespace optimus
