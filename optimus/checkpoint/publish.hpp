#pragma once
// How a folder becomes a checkpoint: written beside its place, then put there by renames, whatever was there before kept until then.
//
//   .slot-0.writing   being written; once it has a manifest it is whole
//   .slot-0.old       the one before, for the moment between two renames
//
// Whenever the program or the machine stops, at least one of slot-0, .slot-0.writing, .slot-0.old is a complete checkpoint if there was one before.
// Internal to this folder.

#include <filesystem>
#include <vector>

namespace optimus {

struct PublishPaths {
  std::filesystem::path folder, writing, old;
  explicit PublishPaths(const std::filesystem::path& published);
};

/// What publishing does, one system call or removal each, in order. A list, so that a test can stop after any of them.
struct PublishStep {
  const char* name;
  void (*run)(const PublishPaths& paths);
};
[[nodiscard]] const std::vector<PublishStep>& publish_steps();

/// Puts `writing`, complete and synced, in the place of `folder`.  Errors: FileError.
void publish_folder(const PublishPaths& paths);

/// Ends what an interrupted write left: the complete one of the three becomes `folder` (the newest, if several are), the others are removed, or set aside where
/// they cannot be. Only for the one process that writes there.  Errors: FileError.
void recover_folder(const PublishPaths& paths);

/// Makes an empty `writing`.  Errors: FileError; also if `folder` exists and is something else than a checkpoint, which must not be replaced.
void prepare_writing(const PublishPaths& paths);

/// After a failure: removes `writing` and puts back what was set aside, as far as the system lets it; the next write does the rest.
void abandon_writing(const PublishPaths& paths) noexcept;

/// Removes a checkpoint; its manifest first, so that a half-removed one is never taken for whole. Of a link only the link.  Errors: FileError.
void remove_checkpoint(const std::filesystem::path& folder);

/// Gives `folder` a name that no checkpoint has: FOLDER.set-aside-1, or with the next number that is free. Returns it.  Errors: FileError.
std::filesystem::path set_aside(const std::filesystem::path& folder);

/// Whether every entry of a folder is something that a checkpoint, or the rest of one, consists of. Not if it is no folder.  Errors: FileError.
[[nodiscard]] bool looks_like_checkpoint(const std::filesystem::path& folder);

/// A manifest that fits itself, and all files with their sizes.
[[nodiscard]] bool is_complete(const std::filesystem::path& folder);

}  // namespace optimus
