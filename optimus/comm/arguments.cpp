#include "optimus/comm/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/counted.hpp"

namespace optimus::arguments {
namespace {

[[noreturn]] void reject(const Communicator& comm, const char* collective, const std::string& what) {
  throw ShapeError(fmt::format("[comm] {} over {} ({}): {}", collective, comm.name(), counted(comm.size(), "member"), what));
}

void check_dtypes(const Communicator& comm, const char* collective, ConstView input, ConstView output) {
  if (input.dtype() != output.dtype()) reject(comm, collective, fmt::format("input is {}, output {}", dtype_name(input.dtype()), dtype_name(output.dtype())));
}

Index sum_of(const Communicator& comm, const char* collective, std::span<const Index> counts) {
  if (static_cast<Index>(counts.size()) != comm.size()) reject(comm, collective, counted(counts.size(), "count") + "; one for each member is needed");
  Index sum = 0;
  for (const Index count : counts) {
    if (count < 0) reject(comm, collective, fmt::format("a count is {}", count));
    sum = checked_add(sum, count);
  }
  return sum;
}

}  // namespace

void check_reduce_scatter(const Communicator& comm, ConstView input, ConstView output) {
  check_dtypes(comm, "reduce_scatter", input, output);
  if (input.count() != checked_mul(output.count(), comm.size()))
    reject(comm, "reduce_scatter",
           fmt::format("input has {}, output {}; input must be one output for each member", counted(input.count(), "element"), output.count()));
}

void check_reduce_scatter_v(const Communicator& comm, ConstView input, ConstView output, std::span<const Index> counts) {
  check_dtypes(comm, "reduce_scatter_v", input, output);
  const Index total = sum_of(comm, "reduce_scatter_v", counts), mine = counts[static_cast<std::size_t>(comm.rank())];
  if (input.count() != total) reject(comm, "reduce_scatter_v", fmt::format("input has {}, the counts add up to {}", counted(input.count(), "element"), total));
  if (output.count() != mine)
    reject(comm, "reduce_scatter_v", fmt::format("output has {}, the count of member {} is {}", counted(output.count(), "element"), comm.rank(), mine));
}

void check_all_gather(const Communicator& comm, ConstView input, ConstView output) {
  check_dtypes(comm, "all_gather", input, output);
  if (output.count() != checked_mul(input.count(), comm.size()))
    reject(comm, "all_gather",
           fmt::format("input has {}, output {}; output must be one input for each member", counted(input.count(), "element"), output.count()));
}

void check_all_gather_v(const Communicator& comm, ConstView input, ConstView output, std::span<const Index> counts) {
  check_dtypes(comm, "all_gather_v", input, output);
  const Index total = sum_of(comm, "all_gather_v", counts), mine = counts[static_cast<std::size_t>(comm.rank())];
  if (input.count() != mine)
    reject(comm, "all_gather_v", fmt::format("input has {}, the count of member {} is {}", counted(input.count(), "element"), comm.rank(), mine));
  if (output.count() != total) reject(comm, "all_gather_v", fmt::format("output has {}, the counts add up to {}", counted(output.count(), "element"), total));
}

void check_all_to_all_v(const Communicator& comm, ConstView input, std::span<const Index> send_counts, ConstView output, std::span<const Index> recv_counts) {
  check_dtypes(comm, "all_to_all_v", input, output);
  const Index sent = sum_of(comm, "all_to_all_v", send_counts), received = sum_of(comm, "all_to_all_v", recv_counts);
  if (input.count() != sent) reject(comm, "all_to_all_v", fmt::format("input has {}, the send counts add up to {}", counted(input.count(), "element"), sent));
  if (output.count() != received)
    reject(comm, "all_to_all_v", fmt::format("output has {}, the receive counts add up to {}", counted(output.count(), "element"), received));
  const auto me = static_cast<std::size_t>(comm.rank());
  if (send_counts[me] != recv_counts[me])
    reject(comm, "all_to_all_v", fmt::format("member {} sends itself {} but receives {}", comm.rank(), counted(send_counts[me], "element"), recv_counts[me]));
}

void check_member(const Communicator& comm, const char* collective, Index member) {
  if (member < 0 || member >= comm.size()) reject(comm, collective, fmt::format("there is no member {}", member));
}

void check_tag(const Communicator& comm, int tag) {
  if (tag < 0 || tag > kMaxTag) reject(comm, "send or receive", fmt::format("tag {} is not in 0 … {}", tag, kMaxTag));
}

Index check_subgroup(const Communicator& comm, std::span<const Index> members) {
  std::vector<Index> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  for (const Index member : members) check_member(comm, "subgroup", member);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) reject(comm, "subgroup", "a member is listed twice");
  const auto place = std::find(members.begin(), members.end(), comm.rank());
  if (place == members.end()) reject(comm, "subgroup", fmt::format("member {} is not in its own list", comm.rank()));
  return place - members.begin();
}

}  // namespace optimus::arguments
