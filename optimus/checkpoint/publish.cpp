#include "optimus/checkpoint/publish.hpp"

#include <fmt/format.h>

#include <system_error>

#include "optimus/base/file.hpp"
#include "optimus/base/log.hpp"
#include "optimus/checkpoint/manifest.hpp"

namespace optimus {
namespace {

std::filesystem::path parent_of(const PublishPaths& paths) { return paths.writing.parent_path(); }

void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code code;
  std::filesystem::rename(from, to, code);
  if (code) throw FileError(fmt::format("[checkpoint] cannot rename {} to {}: {}", from.string(), to.string(), code.message()));
}

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::exists(std::filesystem::symlink_status(path, code));
}

/// Makes the name free: what cannot be removed (a file that a network file system still holds, another user's) gets a name that nobody looks at.
void remove_or_set_aside(const std::filesystem::path& folder) {
  try {
    remove_checkpoint(folder);
  } catch (const FileError& error) {
    log_warning("{}; what is left of it is now {}, remove it when you can", error.what(), set_aside(folder).string());
  }
}

void remove_if_possible(const std::filesystem::path& folder) {
  try {
    remove_or_set_aside(folder);
  } catch (const FileError& error) {  // the new one is in its place, which is what counts
    log_warning("{}", error.what());
  }
}

}  // namespace

PublishPaths::PublishPaths(const std::filesystem::path& published) : folder(published.has_filename() ? published : published.parent_path()) {
  const std::string name = folder.filename().string();
  const std::filesystem::path parent = folder.has_parent_path() ? folder.parent_path() : std::filesystem::path(".");
  writing = parent / fmt::format(".{}.writing", name);
  old = parent / fmt::format(".{}.old", name);
}

const std::vector<PublishStep>& publish_steps() {
  static const std::vector<PublishStep> steps{
      {"remove what an earlier interruption left", [](const PublishPaths& p) { remove_or_set_aside(p.old); }},
      {"set the old one aside",
       [](const PublishPaths& p) {
         if (is_there(p.folder)) rename_folder(p.folder, p.old);
       }},
      {"put the new one in place", [](const PublishPaths& p) { rename_folder(p.writing, p.folder); }},
      {"make the renames last", [](const PublishPaths& p) { sync_folder(parent_of(p)); }},
      {"remove the old one", [](const PublishPaths& p) { remove_if_possible(p.old); }},
  };
  return steps;
}

void publish_folder(const PublishPaths& paths) {
  for (const PublishStep& step : publish_steps()) step.run(paths);
}

void recover_folder(const PublishPaths& paths) {
  if (!is_there(paths.writing) && !is_there(paths.old)) return;  // before every save: no look at each file of the one before
  // `writing` is complete only after all of it was synced; it is newer than `old`, and newer than `folder` if that is still there.
  for (const auto& candidate : {paths.writing, paths.folder, paths.old}) {
    if (!is_there(candidate) || !is_complete(candidate)) continue;
    if (candidate != paths.folder) {
      if (candidate == paths.writing && is_complete(paths.folder)) {
        publish_folder(paths);
      } else {
        remove_or_set_aside(paths.folder);
        rename_folder(candidate, paths.folder);
        sync_folder(parent_of(paths));
      }
    }
    break;
  }
  remove_or_set_aside(paths.writing);
  // Kept as long as nothing complete stands in its place: a person may still save something from it.
  if (is_complete(paths.folder)) remove_or_set_aside(paths.old);
}

void prepare_writing(const PublishPaths& paths) {
  std::error_code code;
  if (is_there(paths.folder) && !std::filesystem::is_directory(paths.folder, code))
    throw FileError(fmt::format("[checkpoint] {} exists and is not a folder", paths.folder.string()));
  if (is_there(paths.folder) && !looks_like_checkpoint(paths.folder)) {
    throw FileError(fmt::format("[checkpoint] {} exists and holds other things than a checkpoint; choose another folder", paths.folder.string()));
  }
  try {
    recover_folder(paths);
    make_folders(paths.writing);
  } catch (const FileError& error) {
    throw FileError(fmt::format("[checkpoint] {} cannot be written: {}", paths.folder.string(), error.what()));
  }
}

void abandon_writing(const PublishPaths& paths) noexcept {
  std::error_code code;
  std::filesystem::remove(paths.writing / kManifestName, code);
  std::filesystem::remove_all(paths.writing, code);
  if (!is_there(paths.folder) && is_there(paths.old)) std::filesystem::rename(paths.old, paths.folder, code);
}

void remove_checkpoint(const std::filesystem::path& folder) {
  std::error_code code;
  // Of a link only the link goes: what it leads to was not put there by us.
  if (!std::filesystem::is_symlink(folder, code)) std::filesystem::remove(folder / kManifestName, code);
  if (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory) {
    throw FileError(fmt::format("[checkpoint] cannot remove {}: {}", (folder / kManifestName).string(), code.message()));
  }
  std::filesystem::remove_all(folder, code);
  if (code) throw FileError(fmt::format("[checkpoint] cannot remove {}: {}", folder.string(), code.message()));
}

std::filesystem::path set_aside(const std::filesystem::path& folder) {
  for (int i = 1;; ++i) {
    std::filesystem::path name = folder.parent_path() / fmt::format("{}.set-aside-{}", folder.filename().string(), i);
    if (is_there(name)) continue;
    rename_folder(folder, name);
    return name;
  }
}

bool looks_like_checkpoint(const std::filesystem::path& folder) {
  std::error_code code;
  for (std::filesystem::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kManifestName) && !name.starts_with("rank")) return false;
  }
  if (code && code != std::errc::not_a_directory) throw FileError(fmt::format("[checkpoint] cannot look into {}: {}", folder.string(), code.message()));
  return !code;
}

bool is_complete(const std::filesystem::path& folder) {
  try {
    return size_problems(folder, read_manifest(folder)).empty();
  } catch (const CheckpointError&) {
    return false;
  }
}

}  // namespace optimus
