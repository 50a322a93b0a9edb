#include "optimus/comm/mpi/handle.hpp"

#include <fmt/format.h>

namespace optimus::mpi {

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return fmt::format("error {}", code);
  return std::string(text, static_cast<std::size_t>(length));
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw CommError(fmt::format("[comm] {} failed: {}", call, error_text(code)));
}

MPI_Comm duplicate_world() {
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return comm;
}

Group::Group(MPI_Comm comm, std::string name) : comm_(comm), name_(std::move(name)) {
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0, size = 1;
  check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
  rank_ = rank;
  size_ = size;
}

Group::~Group() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized == 0) MPI_Comm_free(&comm_);
}

std::string Group::describe_member(Index member) const {
  int likeness = MPI_UNEQUAL;
  MPI_Comm_compare(comm_, MPI_COMM_WORLD, &likeness);
  if (likeness == MPI_IDENT || likeness == MPI_CONGRUENT) return fmt::format("rank {}", member);
  MPI_Group mine = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  const int in_group = static_cast<int>(member);
  int in_world = MPI_UNDEFINED;
  MPI_Comm_group(comm_, &mine);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_translate_ranks(mine, 1, &in_group, world, &in_world);
  MPI_Group_free(&mine);
  MPI_Group_free(&world);
  return fmt::format("member {} (rank {} of the world)", member, in_world);
}

}  // namespace optimus::mpi
