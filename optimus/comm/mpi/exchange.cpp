#include "optimus/comm/mpi/exchange.hpp"

#include <algorithm>

namespace optimus::mpi {

Plan plan_all_to_all(const Place& place, std::span<const Part> sent, std::span<const Part> received) {
  // Offset o pairs rank with rank + o and rank - o: within a round everybody sends to and receives from the same number of peers.
  Plan plan;
  for (Index offset = 1; offset < place.size; ++offset) {
    if ((offset - 1) % place.peers_per_round == 0) plan.begin_round();
    const Index to = (place.rank + offset) % place.size, from = (place.rank - offset + place.size) % place.size;
    const Part& out = sent[static_cast<std::size_t>(to)];
    const Part& in = received[static_cast<std::size_t>(from)];
    if (in.bytes > 0) plan.receive(in.data, in.bytes, from);
    if (out.bytes > 0) plan.send(out.data, out.bytes, to);
  }
  return plan;
}

Plan plan_doubling_gather(const Place& place, std::byte* blocks, Index block_bytes) {
  Plan plan;
  for (Index have = 1; have < place.size; have *= 2) {
    const Index bytes = std::min(have, place.size - have) * block_bytes;
    plan.begin_round();
    plan.receive(blocks + have * block_bytes, bytes, (place.rank + have) % place.size);
    plan.send(blocks, bytes, (place.rank - have + place.size) % place.size);
  }
  return plan;
}

Plan plan_broadcast(const Place& place, std::byte* data, Index bytes, Index root, bool is_direct) {
  Plan plan;
  if (bytes == 0 || place.size == 1) return plan;
  const auto member = [&](Index distance) { return (root + distance) % place.size; };
  const Index mine = (place.rank - root + place.size) % place.size;  // distance from the root
  if (is_direct) {
    plan.begin_round();
    if (mine != 0) plan.receive(data, bytes, root);
    for (Index d = 1; mine == 0 && d < place.size; ++d) plan.send(data, bytes, member(d));
    return plan;
  }
  // Binomial tree: the parent is reached by clearing the lowest set bit, children by setting lower ones.
  Index low = 1;
  while (low < place.size && (mine & low) == 0) low *= 2;
  if (mine != 0) {
    plan.begin_round();
    plan.receive(data, bytes, member(mine - low));
  }
  plan.begin_round();
  for (Index step = low / 2; step > 0; step /= 2)
    if (mine + step < place.size) plan.send(data, bytes, member(mine + step));
  return plan;
}

Plan plan_scattered_broadcast(const Place& place, std::byte* data, Index bytes, Index root) {
  const auto part = [&](Index m) {
    const Index length = ceil_div(bytes, place.size), begin = std::min(bytes, m * length);
    return Part{data + begin, std::min(bytes, begin + length) - begin};
  };
  Plan plan;
  plan.begin_round();
  if (place.rank == root) {
    for (Index m = 0; m < place.size; ++m)
      if (m != root && part(m).bytes > 0) plan.send(part(m).data, part(m).bytes, m);
  } else if (part(place.rank).bytes > 0) {
    plan.receive(part(place.rank).data, part(place.rank).bytes, root);
  }
  // The root has everything and its own part is still only there.
  std::vector<Part> sent(static_cast<std::size_t>(place.size), part(place.rank)), received(static_cast<std::size_t>(place.size));
  sent[static_cast<std::size_t>(root)] = {};
  for (Index m = 0; m < place.size; ++m)
    if (place.rank != root) received[static_cast<std::size_t>(m)] = part(m);
  const Plan exchange = plan_all_to_all(place, sent, received);
  for (const std::size_t begin : exchange.round_begins) plan.round_begins.push_back(begin + plan.transfers.size());
  plan.transfers.insert(plan.transfers.end(), exchange.transfers.begin(), exchange.transfers.end());
  return plan;
}

Plan plan_barrier(const Place& place, std::byte* two_bytes, bool is_direct) {
  Plan plan;
  if (is_direct) plan.begin_round();
  for (Index offset = 1; offset < place.size; offset = is_direct ? offset + 1 : offset * 2) {
    if (!is_direct) plan.begin_round();
    plan.receive(two_bytes, 1, (place.rank - offset + place.size) % place.size);
    plan.send(two_bytes + 1, 1, (place.rank + offset) % place.size);
  }
  return plan;
}

void Exchange::run_rounds() {
  while (num_pending_ == 0 && next_round_ < plan_.round_begins.size()) {
    const std::size_t begin = plan_.round_begins[next_round_++];
    const std::size_t end = next_round_ < plan_.round_begins.size() ? plan_.round_begins[next_round_] : plan_.transfers.size();
    // Receives first: what arrives then has a place to go.
    for (std::size_t i = begin; i < end; ++i)
      if (!plan_.transfers[i].is_send) num_pending_ += post(plan_.transfers[i], 0);
    for (std::size_t i = begin; i < end; ++i)
      if (plan_.transfers[i].is_send) num_pending_ += post(plan_.transfers[i], 0);
  }
  if (num_pending_ > 0) return;
  if (at_end_) at_end_();
  finish();
}

void Exchange::on_complete(int) {
  if (--num_pending_ == 0) run_rounds();
}

}  // namespace optimus::mpi
