#pragma once
// One checkpoint being written, in five parts: those in which ranks meet, and between them those that take time, for the background. Internal to this folder.

#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/publish.hpp"
#include "optimus/checkpoint/write_hooks.hpp"

namespace optimus {

/// In this order: prepare(), write_files(), gather(), publish(), finish(). The first, third and last are collective over `world`; the others only touch files
/// and may run in another thread.
class WriteJob {
 public:
  WriteJob(Communicator& world, const std::filesystem::path& folder, CheckpointInfo info, Index file_bytes, WriteHooks hooks = {});

  /// Checks the chunks and the free space and makes the folder to write into.  Errors: as write_checkpoint, on all ranks alike.
  void prepare(std::span<const Chunk> chunks);
  /// Writes, syncs and reads back this rank's files. Never throws: what goes wrong comes out of gather(). `chunks` as in prepare, possibly copies.
  void write_files(std::span<const Chunk> chunks) noexcept;
  /// Rank 0 learns what all have written.  Errors: as write_checkpoint, on all ranks alike.
  void gather();
  /// Tells the hooks. On rank 0 then: proves that every tensor is covered, puts the checkpoint in place, removes the one before, and calls `after`. Never throws:
  /// what goes wrong comes out of finish().
  void publish(const std::function<void()>& after) noexcept;
  /// The checkpoint is in its place on return.  Errors: as write_checkpoint, on all ranks alike.
  void finish();

 private:
  /// A chunk, or a flat part of one that would make a file too large.
  struct Piece {
    std::size_t chunk;
    Index begin, end;  ///< elements of its data
  };
  void plan_files(std::span<const Chunk> chunks);
  void write_one_file(std::span<const Chunk> chunks, std::span<const Piece> pieces);
  void verify_files();
  /// `bytes` more are written.
  void wrote(Index bytes);
  void put_in_place() const;
  [[nodiscard]] Manifest merge_tables() const;
  void throw_failure();
  template <class Action> void agree_or_clean_up(Action&& action);

  Communicator& world_;
  PublishPaths paths_;
  CheckpointInfo info_;
  Index file_bytes_;
  WriteHooks hooks_;
  Index written_bytes_ = 0, bytes_ = 0;   ///< of this rank's elements: in files, and in all
  std::vector<std::vector<Piece>> plan_;  ///< pieces of each file
  Manifest written_;                      ///< of this rank
  std::string tables_;                    ///< rank 0: lines of what each rank has written
  std::exception_ptr failure_;
};

/// Name of a rank's file, relative to the checkpoint: in worlds of more than 256 ranks spread over folders, which file systems prefer.
[[nodiscard]] std::string data_file_name(Index rank, Index world_size, Index number);

}  // namespace optimus
