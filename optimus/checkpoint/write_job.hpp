#pragma once
// One checkpoint being written, in three parts, so that the middle one can run in the background. Internal to this folder.

#include <exception>
#include <filesystem>
#include <span>
#include <vector>

#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/publish.hpp"

namespace optimus {

/// prepare() and publish() are collective over `world`; write_files() is local and may run in another thread between them.
class WriteJob {
 public:
  WriteJob(Communicator& world, const std::filesystem::path& folder, CheckpointInfo info, Index file_bytes);

  /// Checks the chunks and the free space and makes the folder to write into.  Errors: as write_checkpoint, on all ranks alike.
  void prepare(std::span<const Chunk> chunks);
  /// Writes, syncs and reads back this rank's files. Never throws: what goes wrong comes out of publish(). `chunks` as in prepare, possibly copies.
  void write_files(std::span<const Chunk> chunks) noexcept;
  /// Gathers what was written, proves that it covers every tensor, and puts the checkpoint in place.  Errors: as write_checkpoint, on all ranks alike.
  void publish();

 private:
  /// A chunk, or a flat part of one that would make a file too large.
  struct Piece {
    std::size_t chunk;
    Index begin, end;  ///< elements of its data
  };
  void plan_files(std::span<const Chunk> chunks);
  void write_one_file(std::span<const Chunk> chunks, std::span<const Piece> pieces);
  void verify_files() const;
  Manifest merge_tables(const std::string& lines) const;
  template <class Action> void agree_or_clean_up(Action&& action);

  Communicator& world_;
  PublishPaths paths_;
  CheckpointInfo info_;
  Index file_bytes_;
  std::vector<std::vector<Piece>> plan_;  ///< pieces of each file
  Manifest written_;                      ///< of this rank
  std::exception_ptr failure_;
};

/// Name of a rank's file, relative to the checkpoint: in worlds of more than 256 ranks spread over folders, which file systems prefer.
[[nodiscard]] std::string data_file_name(Index rank, Index world_size, Index number);

}  // namespace optimus
