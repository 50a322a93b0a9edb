// A checkpoint damaged in every way and place: noticed, named, never loaded.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using test::ChunkSet;
using testing::AnyOf;
using testing::HasSubstr;

class DamageTest : public testing::Test {
 protected:
  void SetUp() override {
    write("slot-0", 0);
    write("slot-1", 1000);
    for (const auto& entry : std::filesystem::directory_iterator(slot)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    ASSERT_EQ(files.size(), 3U);  // the manifest and two data files
  }
  void write(const char* name, float offset) {
    write_checkpoint(*world, folder.path() / name, test::toy_info(), test::cut(test::ToyState(offset), test::layouts()[4]).chunks, 1000);
  }

  // Damage is seen by verify and refused by load, both naming the file, and not a byte of memory changes.
  void expect_noticed(const std::filesystem::path& file, const std::string& what) {
    const auto problems = verify_checkpoint(slot);
    std::string all;
    for (const std::string& problem : problems) all += problem + "\n";
    EXPECT_THAT(all, HasSubstr(file.string())) << what;
    const ChunkSet set = test::cut(test::ToyState(), test::layouts()[6]).poisoned();
    try {
      read_checkpoint(*world, slot, set.chunks);
      ADD_FAILURE() << what << ": loaded";
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr(file.string())) << what;
    }
    for (const auto& bytes : set.memory) EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0xa5}), static_cast<std::ptrdiff_t>(bytes.size())) << what;
  }
  void expect_whole() { EXPECT_TRUE(verify_checkpoint(slot).empty()); }

  test::TemporaryFolder folder;
  std::filesystem::path slot = folder.path() / "slot-0";
  std::vector<std::filesystem::path> files;
  std::unique_ptr<Communicator> world = make_self_communicator();
};

TEST_F(DamageTest, OneBitAnywhere) {
  for (const auto& file : files) {
    const std::string whole = test::read_bytes(file);
    for (std::size_t i = 0; i < whole.size(); i += 7) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
      test::write_bytes(file, damaged);
      expect_noticed(file, fmt::format("bit {} of byte {} of {}", i % 8, i, file.filename().string()));
    }
    test::write_bytes(file, whole);
  }
  expect_whole();
}

TEST_F(DamageTest, OtherLengths) {
  for (const auto& file : files) {
    const std::string whole = test::read_bytes(file);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{8}, whole.size() / 2, whole.size() - 1}) {
      test::write_bytes(file, whole.substr(0, size));
      expect_noticed(file, fmt::format("{} bytes of {}", size, file.filename().string()));
    }
    test::write_bytes(file, whole + '\0');
    expect_noticed(file, "one byte more");
    test::write_bytes(file, whole);
  }
  expect_whole();
}

TEST_F(DamageTest, MissingAndForeignFiles) {
  for (const auto& file : files) {
    const std::string whole = test::read_bytes(file);
    std::filesystem::remove(file);
    if (file.filename() == "manifest.json") {
      EXPECT_THAT(verify_checkpoint(slot).at(0), HasSubstr("manifest.json"));
    } else {
      expect_noticed(file, "missing");
    }
    std::filesystem::create_directory(file);
    expect_noticed(file, "a folder in its place");
    std::filesystem::remove(file);
    test::write_bytes(file, std::string(whole.size(), 'x'));
    expect_noticed(file, "foreign, of the same size");
    // From another checkpoint of the same shape.
    std::filesystem::copy_file(folder.path() / "slot-1" / file.filename(), file, std::filesystem::copy_options::overwrite_existing);
    if (file.filename() == "manifest.json") expect_noticed(files.back(), "the manifest of another checkpoint");
    else expect_noticed(file, "of another checkpoint");
    test::write_bytes(file, whole);
  }
  test::write_bytes(slot / "rank-00007-0.safetensors", "x");
  EXPECT_THAT(verify_checkpoint(slot).at(0), HasSubstr("rank-00007-0.safetensors does not belong"));
}

TEST_F(DamageTest, SwappedFiles) {
  std::filesystem::rename(files[1], slot / "a");
  std::filesystem::rename(files[2], files[1]);
  std::filesystem::rename(slot / "a", files[2]);
  expect_noticed(files[1], "swapped");
  expect_noticed(files[2], "swapped");
}

TEST_F(DamageTest, NamesTensorAndChunk) {
  std::string bytes = test::read_bytes(files[2]);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_bytes(files[2], bytes);
  const auto problems = verify_checkpoint(slot);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], AnyOf(HasSubstr("tensor model.experts.{}.up.weight [0:6, 0:5, 0:3](84:90) is altered")));
}

}  // namespace
}  // namespace optimus
