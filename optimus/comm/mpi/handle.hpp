#pragma once
// MPI's own types and the one place that looks at its return codes. Private to the sources of this folder.

#include <mpi.h>

#include <string>

#include "optimus/base/index.hpp"

namespace optimus::mpi {

/// The library's words for an error code.
[[nodiscard]] std::string error_text(int code);
/// Errors: CommError naming the call, if `code` is not success.
void check(int code, const char* call);

/// A copy of all ranks' communicator: messages of its users never mix with others'.  Collective.
[[nodiscard]] MPI_Comm duplicate_world();

/// One MPI communicator, freed at the end.
class Group {
 public:
  Group(MPI_Comm comm, std::string name);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] Index rank() const { return rank_; }
  [[nodiscard]] Index size() const { return size_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// "member 2 (rank 5 of the world)"; only the number where the group is the world.
  [[nodiscard]] std::string describe_member(Index member) const;

 private:
  MPI_Comm comm_;
  std::string name_;
  Index rank_ = 0, size_ = 1;
};

}  // namespace optimus::mpi
