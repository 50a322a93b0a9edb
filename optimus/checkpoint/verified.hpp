#pragma once
// A checkpoint that ranks open together: no file is read by more than one of them to verify it. Internal to this folder.

#include <filesystem>
#include <span>

#include "optimus/checkpoint/fill.hpp"
#include "optimus/comm/communicator.hpp"

namespace optimus {

/// A reader of what was verified: the manifest by the first rank, the files shared out over all, `chunks` by each rank for itself.
///
/// Collective: over `world`. What the reader does afterwards is each rank's own affair.
/// Errors:   CheckpointError, on all ranks the same, with every problem that any of them found.
[[nodiscard]] CheckpointReader open_verified(Communicator& world, const std::filesystem::path& folder, std::span<const Chunk> chunks);

}  // namespace optimus
