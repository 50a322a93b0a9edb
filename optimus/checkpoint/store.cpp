#include "optimus/checkpoint/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/problems.hpp"
#include "optimus/checkpoint/publish.hpp"

namespace optimus {
namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::exists(path, code);
}

// The published folder, or what an interrupted write left of it.
std::optional<CheckpointInfo> look(const std::filesystem::path& folder, std::vector<std::string>& damaged) {
  const PublishPaths paths(folder);
  for (const auto& place : {paths.writing, paths.folder, paths.old}) {
    if (place != paths.folder && !is_there(place / kManifestName)) continue;
    if (!is_there(place)) continue;
    try {
      const Manifest manifest = read_manifest(place);
      throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {}", place.string()), size_problems(place, manifest));
      return manifest.info;
    } catch (const CheckpointError& error) {
      damaged.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

bool may_be_replaced(const std::filesystem::path& slot) {
  try {
    return looks_like_checkpoint(slot);
  } catch (const FileError&) {  // a folder that cannot be looked into cannot be written either
    return false;
  }
}

// Published names of everything in persistent/, also of what is only there under a temporary name.
std::vector<std::filesystem::path> persistent_folders(const std::filesystem::path& parent) {
  std::vector<std::filesystem::path> folders;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(parent, code)) {
    std::string name = entry.path().filename().string();
    for (const std::string_view ending : {".writing", ".old"}) {
      if (name.starts_with(".step-") && name.ends_with(ending)) name = name.substr(1, name.size() - 1 - ending.size());
    }
    if (name.starts_with("step-")) folders.push_back(parent / name);
  }
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  return folders;
}

// N of ".../step-N".
std::optional<Index> step_of(const std::filesystem::path& folder) {
  const std::string digits = folder.filename().string().substr(std::string_view("step-").size());
  Index step = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return code == std::errc() && end == digits.data() + digits.size() ? std::optional(step) : std::nullopt;
}

}  // namespace

CheckpointStore::CheckpointStore(const std::filesystem::path& run_dir) : folder_(run_dir / "checkpoints") {}

std::filesystem::path CheckpointStore::next_slot(std::span<const std::filesystem::path> spoilt) const {
  std::vector<std::string> damaged;
  const auto good = [&](const std::filesystem::path& slot) {
    return std::find(spoilt.begin(), spoilt.end(), slot) == spoilt.end() ? look(slot, damaged) : std::nullopt;
  };
  const auto first = good(folder_ / "slot-0"), second = good(folder_ / "slot-1");
  if (!first) return folder_ / "slot-0";
  if (!second) return folder_ / "slot-1";
  return folder_ / (first->sequence < second->sequence ? "slot-0" : "slot-1");
}

std::filesystem::path CheckpointStore::other_slot(const std::filesystem::path& slot) {
  return slot.parent_path() / (slot.filename() == "slot-0" ? "slot-1" : "slot-0");
}

std::optional<std::filesystem::path> CheckpointStore::make_replaceable(const std::filesystem::path& slot) const {
  return is_there(slot) && !may_be_replaced(slot) ? std::optional(set_aside(slot)) : std::nullopt;
}

std::filesystem::path CheckpointStore::persistent(Index step) const { return folder_ / "persistent" / fmt::format("step-{}", step); }

void CheckpointStore::publish_latest(const std::filesystem::path& folder) const {
  write_file_atomically(folder_ / "latest", folder.lexically_relative(folder_).string() + "\n");
}

std::vector<CheckpointInfo> CheckpointStore::candidates(std::vector<std::string>& damaged) const {
  std::vector<CheckpointInfo> infos;
  for (const char* slot : {"slot-0", "slot-1"}) {
    const auto info = look(folder_ / slot, damaged);
    if (info && info->is_full_state) infos.push_back(*info);
  }
  std::stable_sort(infos.begin(), infos.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) {
    return std::pair(a.sequence, a.position.step) > std::pair(b.sequence, b.position.step);
  });
  return infos;
}

std::vector<CheckpointInfo> CheckpointStore::persistent_candidates(std::vector<std::string>& damaged) const {
  std::vector<CheckpointInfo> infos;
  for (const auto& folder : persistent_folders(folder_ / "persistent")) {
    if (const auto info = look(folder, damaged)) infos.push_back(*info);
  }
  // Each step has a folder of its own; which was written last says nothing where a run has gone back to an earlier step.
  std::stable_sort(infos.begin(), infos.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) { return a.position.step > b.position.step; });
  return infos;
}

void CheckpointStore::clean() const {
  if (!is_there(folder_)) return;
  for (const char* slot : {"slot-0", "slot-1"}) recover_folder(PublishPaths(folder_ / slot));
  for (const auto& folder : persistent_folders(folder_ / "persistent")) recover_folder(PublishPaths(folder));
}

std::vector<Index> CheckpointStore::prune_persistent(Index newest, const KeepPolicy& keep, std::vector<std::string>& kept_back) const {
  std::vector<Index> removed;
  if (keep.last == 0) return removed;
  std::vector<Index> steps;
  for (const auto& folder : persistent_folders(folder_ / "persistent")) {
    if (const auto step = step_of(folder); step && *step <= newest) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  Index kept = 0;
  std::erase_if(steps, [&](Index step) {
    if (step == newest || (kept < keep.last && is_complete(persistent(step)))) return ++kept > 0;
    return keep.every > 0 && step % keep.every == 0;
  });
  std::reverse(steps.begin(), steps.end());
  for (const Index step : steps) {
    try {
      if (!is_there(persistent(step)) || !looks_like_checkpoint(persistent(step))) continue;
      remove_checkpoint(persistent(step));
      removed.push_back(step);
    } catch (const FileError& error) {  // the others need not stay for it
      kept_back.emplace_back(error.what());
    }
  }
  return removed;
}

bool CheckpointStore::set_slots_aside() const {
  const std::filesystem::path aside = folder_ / "replaced";
  bool is_first = true;
  std::error_code code;
  for (const char* slot : {"slot-0", "slot-1"}) {
    if (!is_there(folder_ / slot)) continue;
    if (std::exchange(is_first, false)) {
      std::filesystem::remove(folder_ / "latest", code);
      if (!code) std::filesystem::remove_all(aside, code);
      make_folders(aside);
    }
    if (!code) std::filesystem::rename(folder_ / slot, aside / slot, code);
    if (code) throw FileError(fmt::format("[checkpoint] cannot move {} to {}: {}", (folder_ / slot).string(), aside.string(), code.message()));
  }
  return !is_first;
}

void check_may_be_replaced(const std::filesystem::path& folder) {
  std::error_code code;
  const std::filesystem::path real = std::filesystem::weakly_canonical(std::filesystem::absolute(folder, code), code);
  for (auto place = real; place.has_relative_path(); place = place.parent_path()) {
    if (place.filename() == "checkpoints" && is_there(place.parent_path() / "run.toml")) {
      throw FileError(
          fmt::format("[checkpoint] {} is among the checkpoints of the run {}; choose another folder", folder.string(), place.parent_path().string()));
    }
  }
  std::vector<std::string> damaged;
  const auto info = look(folder, damaged);
  if (info && info->is_full_state)
    throw FileError(fmt::format("[checkpoint] {} holds the full state of a run at step {}; choose another folder", folder.string(), info->position.step));
}

CheckpointInfo find_checkpoint(const std::filesystem::path& path) {
  if (!is_there(path)) throw CheckpointError(fmt::format("[checkpoint] {} does not exist", path.string()));
  if (!is_there(path / "checkpoints")) return inspect_checkpoint(path);
  const CheckpointStore store(path);
  std::vector<std::string> damaged;
  auto found = store.candidates(damaged);
  if (found.empty()) found = store.persistent_candidates(damaged);
  if (!found.empty()) return found.front();
  if (damaged.empty()) throw CheckpointError(fmt::format("[checkpoint] {} has no checkpoint yet", path.string()));
  throw CheckpointError(problem_message(fmt::format("[checkpoint] {} has no complete checkpoint", path.string()), damaged));
}

}  // namespace optimus
