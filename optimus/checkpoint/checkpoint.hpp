#pragma once
// Checkpoints: whole or not there, described by global names, so that any layout can read what any other wrote. async_writer.hpp writes them in the background.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "optimus/checkpoint/checkpoint_info.hpp"
#include "optimus/checkpoint/hugging_face.hpp"
#include "optimus/checkpoint/store.hpp"
#include "optimus/checkpoint/write_hooks.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/tensor/chunk.hpp"

namespace optimus {

/// Bytes after which a rank begins another file.
inline constexpr Index kCheckpointFileBytes = Index{2} << 30;

/// Writes a checkpoint into `folder`: aside, synced, read back, then put in place by a rename. Whatever checkpoint was there before is replaced only then.
///
/// Collective: over `world`; every rank passes the chunks it holds (of a replica group only one member); together they cover every element of every tensor
///             exactly once.
/// Errors:   FileError on all ranks alike (disk full, no permission, the folder holds other things than a checkpoint), naming the first rank and the path;
///           NumericError naming a tensor with NaN or infinity; CheckpointError if an element is passed twice or by nobody. What was there before stays valid,
///           nothing of the new one stays.
void write_checkpoint(Communicator& world, const std::filesystem::path& folder, const CheckpointInfo& info, std::span<const Chunk> chunks,
                      Index file_bytes = kCheckpointFileBytes, const WriteHooks& hooks = {});

/// Fills `chunks` (any boxes and flat ranges of the stored tensors) from `folder`. All sizes, checksums and coverage are verified, shared out over the ranks, before
/// anything is written into memory.
///
/// Types:    of a chunk as stored, or f32 for what is stored as bf16 or f16.
/// Collective: over `world`.
/// Errors:   CheckpointError, on all ranks the same, naming every missing, short or altered file or tensor and every tensor of another shape or type.
CheckpointInfo read_checkpoint(Communicator& world, const std::filesystem::path& folder, std::span<const Chunk> chunks);

/// The weights of a checkpoint, for one rank or another to read. Verified as by read_checkpoint; the files are opened where the reader is first used.
///
/// Collective: over `world`; calls of the reader are not.
/// Errors:   as read_checkpoint.
[[nodiscard]] WeightReader open_checkpoint_weights(Communicator& world, const std::filesystem::path& folder, const std::vector<ParamSpec>& specs);

/// The manifest alone.  Errors: CheckpointError.
[[nodiscard]] CheckpointInfo inspect_checkpoint(const std::filesystem::path& folder);
/// Every problem of a checkpoint in words; empty: it is whole. Reads all bytes.
[[nodiscard]] std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder);

/// What a checkpoint holds, for tables.
struct CheckpointContents {
  struct Tensor {
    std::string name;
    DType dtype = DType::kF32;
    Shape shape;
    Index chunks = 0, bytes = 0;
  };
  struct File {
    std::string name;
    Index bytes = 0, chunks = 0;
  };
  CheckpointInfo info;
  std::vector<Tensor> tensors;  ///< by name
  std::vector<File> files;
  Index bytes = 0;  ///< of all files
};
/// From the manifest alone.  Errors: CheckpointError.
[[nodiscard]] CheckpointContents read_contents(const std::filesystem::path& folder);

/// Writes one safetensors file with whole tensors under Hugging Face names behind "model.", "master.", "exp_avg.", "exp_avg_sq.", the position as metadata. The bytes
/// depend on the state only, not on how it was divided. Verifies everything first; holds one tensor in memory at a time.
/// Errors: CheckpointError if the checkpoint is not whole; FileError.
void consolidate_checkpoint(const std::filesystem::path& folder, const std::filesystem::path& out);

}  // namespace optimus
