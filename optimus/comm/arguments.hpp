#pragma once
// What every transport checks before it moves a byte, in one place so that all give the same messages.

#include <span>

#include "optimus/comm/communicator.hpp"

namespace optimus::arguments {

// Each throws ShapeError naming the collective, the group and the counts.
void check_reduce_scatter(const Communicator& comm, ConstView input, ConstView output);
void check_reduce_scatter_v(const Communicator& comm, ConstView input, ConstView output, std::span<const Index> counts);
void check_all_gather(const Communicator& comm, ConstView input, ConstView output);
void check_all_gather_v(const Communicator& comm, ConstView input, ConstView output, std::span<const Index> counts);
void check_all_to_all_v(const Communicator& comm, ConstView input, std::span<const Index> send_counts, ConstView output, std::span<const Index> recv_counts);
/// `member` is a rank of the group.
void check_member(const Communicator& comm, const char* collective, Index member);
/// User tags are 0 … kMaxTag: MPI promises no more than 32767, and collectives need some of them.
inline constexpr int kMaxTag = 16000;
void check_tag(const Communicator& comm, int tag);
/// The members of a new group: in range, no one twice, this rank among them.  Returns this rank's place.
Index check_subgroup(const Communicator& comm, std::span<const Index> members);

}  // namespace optimus::arguments
