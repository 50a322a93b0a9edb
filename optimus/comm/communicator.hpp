#pragma once
// A group of ranks that exchange tensors. One implementation a folder: self (one rank), mpi, dry (moves nothing); two_level, watched and delayed wrap others.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/tensor/view.hpp"

namespace optimus {

enum class Reduce { kSum, kMax, kMin };

/// A transfer under way. Buffers belong to it until wait() returned.
class Request {
 public:
  virtual ~Request() = default;
  /// Blocks until done; polls, so that other transfers progress too.  Errors: CommError after the time limit, naming collective, group and step.
  virtual void wait() = 0;
  /// True once done; makes progress; never blocks.
  [[nodiscard]] virtual bool test() = 0;
};

/// Work of several stages that has to go on while ranks wait for something else.
class Progress {
 public:
  virtual ~Progress() = default;
  /// Looks whether the next stage can start; never blocks.
  virtual void advance() = 0;
};

/// Collectives over one group. Every member calls the same ones in the same order; one thread at a time.
///
/// Counts are elements, 64-bit; zero elements are allowed. Floating sums: fp32 and fp64 in their own precision, bf16 accumulated in
/// fp32 and rounded once; always in member order, so that a repeated run gives the same bits.
/// Errors: CommError naming the collective, the group and the step when a peer is gone or the time limit has passed; ShapeError for views that do not fit.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual Index rank() const = 0;
  [[nodiscard]] virtual Index size() const = 0;
  /// For messages: "world", "dp", ….
  [[nodiscard]] virtual const std::string& name() const = 0;

  /// Whether nothing is moved and no memory touched (comm/dry): results are not there.
  [[nodiscard]] virtual bool is_dry() const = 0;

  /// In place: data[i] = reduce over members of data[i].  f64, f32, bf16, i64, i32.
  virtual void all_reduce(View data, Reduce reduce) = 0;
  /// input is size() equal parts; output (one part) = sum over members of part rank(), of the types of all_reduce. output may be that part of input.
  virtual void reduce_scatter(ConstView input, View output) = 0;
  /// output is size() equal parts; part m = member m's input. input may be part rank() of output.
  virtual void all_gather(ConstView input, View output) = 0;
  /// all_gather with counts[m] elements from member m, one after another in output. input may be the own part of output.
  virtual void all_gather_v(ConstView input, View output, std::span<const Index> counts) = 0;
  /// Sends send_counts[m] elements to member m and receives recv_counts[m] from it, both in member order without gaps; input and output apart.
  virtual void all_to_all_v(ConstView input, std::span<const Index> send_counts, View output, std::span<const Index> recv_counts) = 0;
  virtual void broadcast(View data, Index root) = 0;
  /// Messages with one tag, 0 … 16000, arrive in the order in which their sender sent them. send() may last until the receive is there.
  /// Errors: CommError if receive() has another size than was sent.
  virtual void send(ConstView data, Index to, int tag) = 0;
  virtual void receive(View data, Index from, int tag) = 0;
  virtual void barrier() = 0;
  /// Lets transfers under way progress, here and in all groups made from the same world; never blocks. Transports move data only while they are
  /// called: who computes for long in one piece calls this in between. Nearly free where nothing is under way.
  virtual void poll() = 0;
  /// From now on poll() and every wait, in any group made from the same world, also calls progress.advance(). Until remove_progress().
  virtual void add_progress(Progress& progress) = 0;
  virtual void remove_progress(Progress& progress) noexcept = 0;

  /// Non-blocking forms; same results, bit for bit.
  [[nodiscard]] virtual std::unique_ptr<Request> start_reduce_scatter(ConstView input, View output) = 0;
  [[nodiscard]] virtual std::unique_ptr<Request> start_all_gather(ConstView input, View output) = 0;
  [[nodiscard]] virtual std::unique_ptr<Request> start_all_reduce(View data, Reduce reduce) = 0;
  /// reduce_scatter with counts[m] elements in part m.
  [[nodiscard]] virtual std::unique_ptr<Request> start_reduce_scatter_v(ConstView input, View output, std::span<const Index> counts, Reduce reduce) = 0;
  [[nodiscard]] virtual std::unique_ptr<Request> start_all_gather_v(ConstView input, View output, std::span<const Index> counts) = 0;
  /// The counts are read before it returns, the views belong to the request.
  [[nodiscard]] virtual std::unique_ptr<Request> start_all_to_all_v(ConstView input, std::span<const Index> send_counts, View output,
                                                                    std::span<const Index> recv_counts) = 0;
  [[nodiscard]] virtual std::unique_ptr<Request> start_send(ConstView data, Index to, int tag) = 0;
  [[nodiscard]] virtual std::unique_ptr<Request> start_receive(View data, Index from, int tag) = 0;

  /// The group of the members that pass the same `color`, 0 or more, ordered by `key`. Every member calls it.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(Index color, Index key, std::string name) = 0;
  /// The members on the same node as this one.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split_by_node() = 0;

  /// The group of `members` (ranks of this group, this one among them) in that order. Only they call it, each with the same list: no
  /// collective over everybody for each group.
  [[nodiscard]] virtual std::unique_ptr<Communicator> subgroup(std::span<const Index> members, std::string name) = 0;

  /// Named in the messages of everything that follows ("step 12"), here and in all groups made from the same world.
  virtual void set_context(std::string context) = 0;
  /// Tells all ranks of the world that this one cannot go on: whatever they wait for, now or later, throws the error that is being handled
  /// here, prefixed by "rank N: ". Called inside a catch block. Not collective; does not wait. For an error that leaves collectives half way, where agree() cannot help.
  virtual void announce_failure() noexcept = 0;
};

/// `text` of every member, on all of them, in member order.
[[nodiscard]] std::vector<std::string> all_gather_text(Communicator& comm, std::string_view text);
/// `text` of member `root`, on all.
[[nodiscard]] std::string broadcast_text(Communicator& comm, std::string_view text, Index root);

/// Runs `action` on every member and throws on all of them if it threw on any: the same error class and message, which names the first
/// failing rank. How one rank may fail alone without leaving the others waiting.
///
/// Collective: over `comm`, once, after `action` (which must not itself leave a collective half way).
/// Errors:   what `action` threw on the lowest failing member, prefixed by "rank N: " where there is more than one member.
template <class Action> void agree(Communicator& comm, Action&& action);

namespace detail {
/// An exception as plain data: `kind` stands for its class, `code` is its exit code.
struct Failure {
  bool failed = false;
  int kind = 0;
  int code = 1;
  std::string message;
};
void throw_if_any_failed(Communicator& comm, const Failure& mine);
/// The exception being handled.
[[nodiscard]] Failure current_failure();
[[noreturn]] void throw_failure(const Failure& failure);
}  // namespace detail

template <class Action> void agree(Communicator& comm, Action&& action) {
  detail::Failure mine;
  try {
    action();
  } catch (...) {
    mine = detail::current_failure();
  }
  detail::throw_if_any_failed(comm, mine);
}

}  // namespace optimus
