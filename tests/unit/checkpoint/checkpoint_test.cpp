#include "optimus/checkpoint/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/checkpoint/write_job.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using test::ChunkSet;
using test::TemporaryFolder;
using test::ToyState;
using testing::AllOf;
using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  void write(const ChunkSet& set, Index file_bytes = kCheckpointFileBytes) {
    write_checkpoint(*world, folder.path() / "slot-0", test::toy_info(), set.chunks, file_bytes);
  }
  template <class Error> std::string write_error(const ChunkSet& set) {
    try {
      write(set);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error of this class";
  }
  std::string read_error(const std::vector<Chunk>& chunks) {
    try {
      read_checkpoint(*world, folder.path() / "slot-0", chunks);
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "no error";
  }
  TemporaryFolder folder;
  std::unique_ptr<Communicator> world = make_self_communicator();
  ToyState state;
};

void expect_equal(const ChunkSet& found, const ChunkSet& expected, const std::string& what) {
  ASSERT_EQ(found.chunks.size(), expected.chunks.size());
  for (std::size_t i = 0; i < found.memory.size(); ++i)
    EXPECT_EQ(found.memory[i], expected.memory[i]) << what << ": " << found.chunks[i].name << " chunk " << i;
}

TEST_F(CheckpointTest, LoadsInEveryLayoutWhatEveryLayoutSaved) {
  for (const auto& saved : test::layouts()) {
    write(test::cut(state, saved));
    for (const auto& loaded : test::layouts()) {
      const ChunkSet expected = test::cut(state, loaded);
      const ChunkSet found = expected.poisoned();
      read_checkpoint(*world, folder.path() / "slot-0", found.chunks);
      expect_equal(found, expected, saved.name + " to " + loaded.name);
    }
  }
}

TEST_F(CheckpointTest, KeepsPositionAndTexts) {
  write(test::cut(state, test::layouts()[0]));
  const CheckpointInfo info = inspect_checkpoint(folder.path() / "slot-0"), expected = test::toy_info();
  EXPECT_EQ(info.position.step, 3);
  EXPECT_EQ(info.position.tokens, 300);
  EXPECT_EQ(info.position.next_sample, 30);
  EXPECT_EQ(info.position.epoch, 1);
  EXPECT_EQ(info.position.adam_step, 2);
  EXPECT_EQ(info.position.nonfinite_steps, 1);
  EXPECT_EQ(info.hf_config, expected.hf_config);
  EXPECT_EQ(info.run_config, expected.run_config);
  EXPECT_EQ(info.layout, expected.layout);
  EXPECT_EQ(info.weights_dtype, "bf16");
  EXPECT_EQ(info.folder, folder.path() / "slot-0");
  EXPECT_TRUE(info.is_full_state);
}

TEST_F(CheckpointTest, ConsolidatesToTheSameBytesFromEveryLayout) {
  std::string first;
  for (const auto& layout : test::layouts()) {
    write(test::cut(state, layout), layout.flat == 0 ? 500 : kCheckpointFileBytes);
    consolidate_checkpoint(folder.path() / "slot-0", folder.path() / "all.safetensors");
    const std::string bytes = test::read_bytes(folder.path() / "all.safetensors");
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << layout.name;
  }
  const SafetensorsFile file(folder.path() / "all.safetensors");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"step", "3"}, {"tokens", "300"}, {"next_sample", "30"}, {"epoch", "1"}, {"adam_step", "2"}}));
  EXPECT_EQ(file.entries().size(), 4U * (2 + 6));
  const SafetensorsEntry* expert = file.find("model.experts.4.up.weight");
  ASSERT_NE(expert, nullptr);
  EXPECT_EQ(expert->shape, (Shape{5, 3}));
  EXPECT_EQ(expert->dtype, DType::kBF16);
  std::vector<BFloat16> values(15);
  file.read(*expert, View(reinterpret_cast<std::byte*>(values.data()), DType::kBF16, {5, 3}));
  const auto& stacked = state.tensors[2];
  EXPECT_EQ(std::memcmp(values.data(), stacked.bytes.data() + 4 * 15 * 2, 30), 0);
}

TEST_F(CheckpointTest, BeginsAnotherFileAtTheTargetSize) {
  write(test::cut(state, test::layouts()[0]), 300);
  const CheckpointContents contents = read_contents(folder.path() / "slot-0");
  EXPECT_GT(contents.files.size(), 5U);
  for (const auto& file : contents.files) {
    const SafetensorsFile opened(folder.path() / "slot-0" / file.name);  // each is a file that other programs open
    EXPECT_LE(opened.file().size() - opened.header_bytes(), 300);
  }
  EXPECT_TRUE(verify_checkpoint(folder.path() / "slot-0").empty());
}

TEST_F(CheckpointTest, SpreadsTheFilesOfLargeWorldsOverFolders) {
  EXPECT_EQ(data_file_name(7, 8, 0), "rank-00007-0.safetensors");
  EXPECT_EQ(data_file_name(1000, 12288, 2), "ranks-0003/rank-01000-2.safetensors");
}

TEST_F(CheckpointTest, ReadsBf16AsF32) {
  write(test::cut(state, test::layouts()[4]));
  std::vector<float> values(28);
  const Chunk chunk{.name = "model.embed.weight",
                    .global_shape = {7, 4},
                    .box = Box::whole({7, 4}),
                    .flat_begin = 0,
                    .data = View(reinterpret_cast<std::byte*>(values.data()), DType::kF32, {28})};
  read_checkpoint(*world, folder.path() / "slot-0", std::vector{chunk});
  for (Index i = 0; i < 28; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(BFloat16(static_cast<float>(i) + 0.25F)));
}

TEST_F(CheckpointTest, NamesAllUnfitTensorsAndLoadsNothing) {
  write(test::cut(state, test::layouts()[0]));
  ChunkSet set = test::cut(state, test::layouts()[0]).poisoned();
  const ChunkSet before = set.poisoned();
  set.chunks[0].name = "model.other.weight";
  set.chunks[1].global_shape = {4, 7};
  set.chunks[1].box = Box::whole({4, 7});
  set.chunks[4].data = View(set.chunks[4].data.data(), DType::kBF16, {2});
  EXPECT_THAT(read_error(set.chunks), AllOf(HasSubstr("model.other.weight is missing"), HasSubstr("model.embed.weight has shape [7, 4], [4, 7] is needed"),
                                            HasSubstr("master.embed.weight is stored as f32, bf16 is needed"), HasSubstr("3 problems")));
  expect_equal(set, before, "memory after a refused load");
}

TEST_F(CheckpointTest, RefusesElementsPassedTwiceOrByNobody) {
  ChunkSet set = test::cut(state, test::layouts()[4]);
  set.chunks.push_back(set.chunks[3]);
  EXPECT_THAT(write_error<CheckpointError>(set), AllOf(HasSubstr("held twice"), HasSubstr(set.chunks[3].name)));
  set = test::cut(state, test::layouts()[4]);
  set.chunks.erase(set.chunks.begin() + 3);
  EXPECT_THAT(write_error<CheckpointError>(set), HasSubstr("held by nobody"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(CheckpointTest, NeverPublishesNaN) {
  write(test::cut(state, test::layouts()[0]));
  const std::string manifest = test::read_bytes(folder.path() / "slot-0" / "manifest.json");
  ChunkSet set = test::cut(state, test::layouts()[6]);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(set.memory.back().data(), &nan, 4);
  EXPECT_THAT(write_error<NumericError>(set), HasSubstr("exp_avg_sq.experts.{}.up.weight has NaN"));
  EXPECT_EQ(test::read_bytes(folder.path() / "slot-0" / "manifest.json"), manifest);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_F(CheckpointTest, DoesNotReplaceAFolderWithOtherThings) {
  std::filesystem::create_directory(folder.path() / "slot-0");
  test::write_bytes(folder.path() / "slot-0" / "thesis.txt", "years of work");
  EXPECT_THAT(write_error<FileError>(test::cut(state, test::layouts()[0])), HasSubstr("other things than a checkpoint"));
  EXPECT_EQ(test::read_bytes(folder.path() / "slot-0" / "thesis.txt"), "years of work");
}

TEST_F(CheckpointTest, SaysWhatIsNoCheckpoint) {
  EXPECT_THAT(read_error({}), HasSubstr("does not exist"));
  std::filesystem::create_directory(folder.path() / "slot-0");
  EXPECT_THAT(read_error({}), HasSubstr("not a checkpoint"));
  test::write_bytes(folder.path() / "slot-0" / "manifest.json", "{}");
  EXPECT_THAT(read_error({}), HasSubstr("not a manifest"));
}

TEST_F(CheckpointTest, ListsTensorsAndFiles) {
  write(test::cut(state, test::layouts()[1]));
  const CheckpointContents contents = read_contents(folder.path() / "slot-0");
  ASSERT_EQ(contents.tensors.size(), 12U);
  EXPECT_EQ(contents.tensors.front().name, "exp_avg.embed.weight");
  EXPECT_EQ(contents.tensors.front().chunks, 2);
  EXPECT_EQ(contents.tensors.front().bytes, 112);
  EXPECT_EQ(contents.files.size(), 1U);
}

}  // namespace
}  // namespace optimus
