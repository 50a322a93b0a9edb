#pragma once
// What the tests of data share: folders that go away, files of every kind, small tokenizers, messages.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "optimus/data/dataset.hpp"
#include "optimus/data/prepare.hpp"
#include "optimus/data/tokenizer.hpp"

namespace optimus::testing_data {

using Ids = std::vector<std::int32_t>;
namespace fs = std::filesystem;

/// A folder of its own for one test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }
  /// Writes a file below the folder, with its folders; returns its path.
  std::string write(const std::string& name, const std::string& bytes) const;

 private:
  fs::path path_;
};

[[nodiscard]] std::string gzip(const std::string& bytes);
[[nodiscard]] std::string zstd(const std::string& bytes);
/// Little-endian integers of T.
template <class T>
[[nodiscard]] std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
[[nodiscard]] std::string npy(const std::string& dtype, const std::vector<Index>& shape, const std::string& data);

/// A byte-level BPE file: 256 byte tokens, then those of `merges` in order, then `<|endoftext|>`.
[[nodiscard]] nlohmann::json small_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {});
[[nodiscard]] std::string fixture(const std::string& name);

[[nodiscard]] Ids encode(const Tokenizer& tokenizer, const std::string& text);
/// One rank, two workers.
DatasetInfo run_prepare(PrepareOptions options);
/// All samples of a folder.
[[nodiscard]] std::vector<Ids> samples_of(const fs::path& folder);
/// Every file below a folder with its bytes.
[[nodiscard]] std::map<std::string, std::string> files_of(const fs::path& folder);

/// The message of the E that `action` throws. Fails the test if it throws something else or nothing.
template <class E>
[[nodiscard]] std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// The text has all of these in it.
void expect_contains(const std::string& text, const std::vector<std::string>& parts);

}  // namespace optimus::testing_data
