#include "optimus/data/input_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"
#include "optimus/base/log.hpp"

namespace optimus {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kKinds = ".txt and .jsonl (also as .gz and .zst), .npy, .bin";

std::optional<InputFile> file_of(const fs::path& path) {
  InputFile file{.path = path};
  std::string name = path.filename().string();
  const auto take = [&](std::string_view suffix) {
    if (!name.ends_with(suffix)) return false;
    name.resize(name.size() - suffix.size());
    return true;
  };
  if (take(".gz")) {
    file.compression = Compression::kGzip;
  } else if (take(".zst")) {
    file.compression = Compression::kZstd;
  }
  if (take(".txt")) return file;
  file.kind = InputKind::kJsonLines;
  if (take(".jsonl")) return file;
  if (file.compression != Compression::kNone) return std::nullopt;
  file.kind = InputKind::kNpy;
  if (take(".npy")) return file;
  file.kind = InputKind::kRaw;
  return take(".bin") ? std::optional(file) : std::nullopt;
}

void add_file(const fs::path& path, std::vector<InputFile>& files) {
  std::optional<InputFile> file = file_of(path);
  if (!file) throw DataError(fmt::format("[prepare] {}: unknown kind of file; there are {}", path.string(), kKinds));
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) throw DataError(fmt::format("[prepare] {}: {}", path.string(), std::generic_category().message(errno)));
  if (!S_ISREG(status.st_mode))
    throw DataError(fmt::format("[prepare] {}: is not a regular file; a call that was interrupted could not read it again", path.string()));
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  file->bytes = status.st_size;
  file->modified_ns = status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec;
  files.push_back(std::move(*file));
}

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code ignored;  // the output folder need not exist yet
  return fs::equivalent(a, b, ignored);
}

void add_folder(const fs::path& folder, const fs::path& excluded, std::vector<InputFile>& files) {
  std::vector<fs::path> found;
  Index passed_over = 0;
  try {
    for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink); entry != fs::recursive_directory_iterator();
         ++entry) {
      const bool is_hidden = entry->path().filename().string().starts_with('.');
      if (entry->is_directory()) {
        if (is_hidden || is_same_folder(entry->path(), excluded)) entry.disable_recursion_pending();
      } else if (!is_hidden && file_of(entry->path())) {
        found.push_back(entry->path());
      } else {
        ++passed_over;
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw DataError(fmt::format("[prepare] cannot list {}: {}", folder.string(), error.code().message()));
  }
  if (passed_over > 0) log_info("[prepare] {}: {} passed over: hidden, or of another kind than {}", folder.string(), counted(passed_over, "file"), kKinds);
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  for (const fs::path& path : found) add_file(path, files);
}

std::vector<std::string> glob_matches(const std::string& pattern) {
  glob_t matches{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &matches);
  std::vector<std::string> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  if (result != 0 && result != GLOB_NOMATCH) throw DataError(fmt::format("[prepare] cannot list what matches {}", pattern));
  std::sort(paths.begin(), paths.end());  // by bytes: glob sorts by the user's locale
  return paths;
}

void add_input(const std::string& input, const fs::path& excluded, std::vector<InputFile>& files) {
  std::error_code code;
  const fs::file_status status = fs::status(input, code);
  if (code && status.type() != fs::file_type::not_found) throw DataError(fmt::format("[prepare] {}: {}", input, code.message()));
  if (fs::is_directory(status)) return add_folder(input, excluded, files);
  if (fs::exists(status)) return add_file(input, files);
  if (input.find_first_of("*?[") == std::string::npos) throw DataError(fmt::format("[prepare] {}: no such file or folder", input));
  const std::vector<std::string> matches = glob_matches(input);
  if (matches.empty()) throw DataError(fmt::format("[prepare] {}: matches no file", input));
  for (const std::string& path : matches) {
    if (!is_same_folder(path, excluded)) add_input(path, excluded, files);
  }
}

}  // namespace

std::vector<InputFile> find_input_files(const std::vector<std::string>& inputs, const fs::path& excluded) {
  std::vector<InputFile> files;
  for (const std::string& input : inputs) add_input(input, excluded, files);
  if (files.empty()) throw DataError(fmt::format("[prepare] no input: {} hold no file of a known kind; there are {}", fmt::join(inputs, ", "), kKinds));
  return files;
}

}  // namespace optimus
