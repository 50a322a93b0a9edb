#include "optimus/comm/dry/dry.hpp"

#include <fmt/format.h>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"
#include "optimus/comm/arguments.hpp"
#include "optimus/comm/local_reduce.hpp"

namespace optimus {
namespace {

class DoneRequest final : public Request {
 public:
  void wait() override {}
  [[nodiscard]] bool test() override { return true; }
};

class DryCommunicator final : public Communicator {
 public:
  DryCommunicator(Index size, Index rank, std::string name) : size_(size), rank_(rank), name_(std::move(name)) {}

  [[nodiscard]] Index rank() const override { return rank_; }
  [[nodiscard]] Index size() const override { return size_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] bool is_dry() const override { return true; }

  void all_reduce(View data, Reduce) override { check_reducible(data.dtype()); }
  void reduce_scatter(ConstView input, View output) override {
    arguments::check_reduce_scatter(*this, input, output);
    check_reducible(input.dtype());
  }
  void all_gather(ConstView input, View output) override { arguments::check_all_gather(*this, input, output); }
  void all_gather_v(ConstView input, View output, std::span<const Index> counts) override { arguments::check_all_gather_v(*this, input, output, counts); }
  void all_to_all_v(ConstView input, std::span<const Index> send_counts, View output, std::span<const Index> recv_counts) override {
    arguments::check_all_to_all_v(*this, input, send_counts, output, recv_counts);
  }
  void broadcast(View, Index root) override { arguments::check_member(*this, "broadcast", root); }
  void send(ConstView, Index to, int tag) override { check_peer("send", to, tag); }
  void receive(View, Index from, int tag) override { check_peer("receive", from, tag); }
  void barrier() override {}
  void poll() override {}
  void add_progress(Progress&) override {}  // nothing waits here
  void remove_progress(Progress&) noexcept override {}

  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter(ConstView input, View output) override {
    reduce_scatter(input, output);
    return std::make_unique<DoneRequest>();
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather(ConstView input, View output) override {
    all_gather(input, output);
    return std::make_unique<DoneRequest>();
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_reduce(View data, Reduce reduce) override {
    all_reduce(data, reduce);
    return std::make_unique<DoneRequest>();
  }
  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter_v(ConstView input, View output, std::span<const Index> counts, Reduce) override {
    arguments::check_reduce_scatter_v(*this, input, output, counts);
    check_reducible(input.dtype());
    return std::make_unique<DoneRequest>();
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather_v(ConstView input, View output, std::span<const Index> counts) override {
    all_gather_v(input, output, counts);
    return std::make_unique<DoneRequest>();
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_to_all_v(ConstView input, std::span<const Index> send_counts, View output,
                                                            std::span<const Index> recv_counts) override {
    all_to_all_v(input, send_counts, output, recv_counts);
    return std::make_unique<DoneRequest>();
  }
  [[nodiscard]] std::unique_ptr<Request> start_send(ConstView, Index to, int tag) override {
    check_peer("send", to, tag);
    return std::make_unique<DoneRequest>();
  }
  [[nodiscard]] std::unique_ptr<Request> start_receive(View, Index from, int tag) override {
    check_peer("receive", from, tag);
    return std::make_unique<DoneRequest>();
  }

  [[nodiscard]] std::unique_ptr<Communicator> split(Index, Index, std::string name) override {
    throw UnsupportedError(fmt::format("[comm] split of {} ({}) into {}: members that are not there cannot be asked; name them, with subgroup", name_,
                                       counted(size_, "member"), name));
  }
  [[nodiscard]] std::unique_ptr<Communicator> split_by_node() override { return std::make_unique<DryCommunicator>(size_, rank_, "node"); }
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(std::span<const Index> members, std::string name) override {
    const Index mine = arguments::check_subgroup(*this, members);
    return std::make_unique<DryCommunicator>(static_cast<Index>(members.size()), mine, std::move(name));
  }
  void set_context(std::string) override {}
  void announce_failure() noexcept override {}

 private:
  void check_peer(const char* collective, Index peer, int tag) const {
    arguments::check_member(*this, collective, peer);
    arguments::check_tag(*this, tag);
  }

  Index size_, rank_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Communicator> make_dry_communicator(Index size, Index rank, std::string name) {
  if (size < 1 || rank < 0 || rank >= size) throw ConfigError(fmt::format("[comm] {}: rank {} of a group of {}; ranks are 0 … size - 1", name, rank, size));
  return std::make_unique<DryCommunicator>(size, rank, std::move(name));
}

}  // namespace optimus
