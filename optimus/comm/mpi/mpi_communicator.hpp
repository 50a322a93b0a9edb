#pragma once
// Communicator over one MPI communicator: turns collectives into operations and waits for them. Private to this folder.

#include <memory>
#include <string>

#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mpi/engine.hpp"
#include "optimus/comm/mpi/exchange.hpp"
#include "optimus/comm/mpi/handle.hpp"

namespace optimus::mpi {

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(Engine& engine, std::unique_ptr<Group> group) : engine_(engine), group_(std::move(group)) {}

  [[nodiscard]] Index rank() const override { return group_->rank(); }
  [[nodiscard]] Index size() const override { return group_->size(); }
  [[nodiscard]] const std::string& name() const override { return group_->name(); }
  [[nodiscard]] bool is_dry() const override { return false; }

  void all_reduce(View data, Reduce reduce) override { start_all_reduce(data, reduce)->wait(); }
  void reduce_scatter(ConstView input, View output) override { start_reduce_scatter(input, output)->wait(); }
  void all_gather(ConstView input, View output) override { start_all_gather(input, output)->wait(); }
  void all_gather_v(ConstView input, View output, std::span<const Index> counts) override { start_all_gather_v(input, output, counts)->wait(); }
  void all_to_all_v(ConstView input, std::span<const Index> send_counts, View output, std::span<const Index> recv_counts) override {
    start_all_to_all_v(input, send_counts, output, recv_counts)->wait();
  }
  void broadcast(View data, Index root) override;
  void send(ConstView data, Index to, int tag) override { start_send(data, to, tag)->wait(); }
  void receive(View data, Index from, int tag) override { start_receive(data, from, tag)->wait(); }
  void barrier() override;
  void poll() override { engine_.poll(); }
  void add_progress(Progress& progress) override { engine_.add_progress(progress); }
  void remove_progress(Progress& progress) noexcept override { engine_.remove_progress(progress); }

  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter(ConstView input, View output) override;
  [[nodiscard]] std::unique_ptr<Request> start_all_gather(ConstView input, View output) override;
  [[nodiscard]] std::unique_ptr<Request> start_all_reduce(View data, Reduce reduce) override;
  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter_v(ConstView input, View output, std::span<const Index> counts, Reduce reduce) override;
  [[nodiscard]] std::unique_ptr<Request> start_all_gather_v(ConstView input, View output, std::span<const Index> counts) override;
  [[nodiscard]] std::unique_ptr<Request> start_all_to_all_v(ConstView input, std::span<const Index> send_counts, View output,
                                                            std::span<const Index> recv_counts) override;
  [[nodiscard]] std::unique_ptr<Request> start_send(ConstView data, Index to, int tag) override;
  [[nodiscard]] std::unique_ptr<Request> start_receive(View data, Index from, int tag) override;

  [[nodiscard]] std::unique_ptr<Communicator> split(Index color, Index key, std::string name) override;
  [[nodiscard]] std::unique_ptr<Communicator> split_by_node() override;
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(std::span<const Index> members, std::string name) override;
  void set_context(std::string context) override { engine_.set_context(std::move(context)); }
  void announce_failure() noexcept override { engine_.announce_failure(); }

 private:
  [[nodiscard]] Place place() const { return {rank(), size(), engine_.tuning().peers_per_round}; }
  [[nodiscard]] bool is_direct() const { return size() <= engine_.tuning().direct_members; }
  [[nodiscard]] Channel next_channel();
  [[nodiscard]] std::unique_ptr<Request> start(std::unique_ptr<Operation> operation, const char* collective);
  [[nodiscard]] std::unique_ptr<Operation> gather_and_add(View data, Reduce reduce);

  Engine& engine_;
  std::unique_ptr<Group> group_;
  Index num_collectives_ = 0;
};

}  // namespace optimus::mpi
