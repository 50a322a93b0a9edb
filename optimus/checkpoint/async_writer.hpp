#pragma once
// Checkpoints written while training goes on.

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "optimus/checkpoint/checkpoint.hpp"

namespace optimus {

/// Copies the state and writes it in a thread of its own, in two parts: all ranks their files, then rank 0 the manifest and the renames. That thread only touches
/// files; ranks meet in start(), poll() and finish() alone, and none of these waits for the disk but finish().
///
/// Memory: one copy of what this rank saves (buffer_bytes), kept from one checkpoint to the next.
class AsyncCheckpointWriter {
 public:
  /// `hooks`: told of every checkpoint.
  explicit AsyncCheckpointWriter(Communicator& world, WriteHooks hooks = {});
  /// Waits for the thread; a checkpoint not finished is not published.
  ~AsyncCheckpointWriter();
  AsyncCheckpointWriter(const AsyncCheckpointWriter&) = delete;
  AsyncCheckpointWriter& operator=(const AsyncCheckpointWriter&) = delete;

  /// What the copy of these chunks takes.
  [[nodiscard]] static Index buffer_bytes(std::span<const Chunk> chunks);
  /// True between start() and the poll() or finish() that ends it. The same on all ranks.
  [[nodiscard]] bool is_busy() const;
  /// Copies `chunks`, which may change as soon as it returns, and begins to write. finish() the one before first. `after` is called on rank 0 once the checkpoint
  /// is in its place, in the thread; what it throws counts as an error of the write.
  /// Collective: over `world`.  Errors: as write_checkpoint, for what is known at once (permissions, space).
  void start(const std::filesystem::path& folder, const CheckpointInfo& info, std::span<const Chunk> chunks, std::function<void()> after = [] {});
  /// The folder once the checkpoint is in its place. Begins the second part if all ranks are through with the first.
  /// Collective: over `world` while is_busy(), else nothing happens.  Errors: as write_checkpoint; the writer can then be used again.
  [[nodiscard]] std::optional<std::filesystem::path> poll();
  /// As poll(), but waits: however long it takes, for ranks meet all the while.
  [[nodiscard]] std::optional<std::filesystem::path> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace optimus
