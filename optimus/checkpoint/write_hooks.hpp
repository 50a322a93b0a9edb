#pragma once
// What a checkpoint tells of itself on its way to disk.

#include <functional>

#include "optimus/base/index.hpp"

namespace optimus {

/// Called on every rank; each may be empty. What `wrote` and `publishing` throw is an error of the write on all ranks.
struct WriteHooks {
  /// In the thread that writes this rank's files: when it begins, after each block, each file and each file read back. How many of `of_bytes`, all that this rank
  /// has to write, are in its files.
  std::function<void(Index bytes, Index of_bytes)> wrote;
  /// In a thread, once the files of all ranks are complete, before rank 0 puts the checkpoint in place.
  std::function<void()> publishing;
  /// In the thread, when this rank is through with writing, and when it is through with publishing, however that ended.
  std::function<void()> ended;
  /// In the calling thread, some times a second for as long as ranks wait for each other's disks.
  std::function<void()> waiting;
};

}  // namespace optimus
