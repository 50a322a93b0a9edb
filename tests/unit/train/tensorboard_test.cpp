#include "optimus/train/tensorboard.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace optimus {
namespace {

std::string hex(std::string_view bytes) {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) text += {digits[static_cast<unsigned char>(byte) >> 4], digits[static_cast<unsigned char>(byte) & 15]};
  return text;
}

/// Values of RFC 3720, B.4.
TEST(Crc32c, MatchesPublishedVectors) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
}

TEST(TensorBoard, WritesTheVersionEventAsPublishedFilesBegin) {
  const std::string event = version_event(0.0);
  EXPECT_EQ(hex(event),
            "090000000000000000"
            "1a0d"
            "627261696e2e4576656e743a32");
}

TEST(TensorBoard, EncodesScalarsAsProtobuf) {
  const std::vector<Scalar> scalars = {{"a", 1.0}};
  // wall_time 1.0, step 300 as a two-byte varint, summary { value { tag "a", simple_value 1.0f } }
  EXPECT_EQ(hex(scalars_event(1.0, 300, scalars)),
            "09000000000000f03f"
            "10ac02"
            "2a0a"
            "0a08"
            "0a0161"
            "150000803f");
}

TEST(TensorBoard, FramesRecordsWithMaskedChecksums) {
  const std::string record = event_record("abc");
  ASSERT_EQ(record.size(), 8U + 4 + 3 + 4);
  EXPECT_EQ(hex(record.substr(0, 8)), "0300000000000000");
  const auto stored = [&](std::size_t at) { return *reinterpret_cast<const std::uint32_t*>(record.substr(at, 4).data()); };
  const auto unmask = [](std::uint32_t masked) {
    const std::uint32_t rotated = masked - 0xa282ead8U;
    return (rotated >> 17) | (rotated << 15);
  };
  EXPECT_EQ(unmask(stored(8)), crc32c(record.substr(0, 8)));
  EXPECT_EQ(unmask(stored(15)), crc32c("abc"));
}

TEST(TensorBoard, StartsANewFileThatSupersedesLaterStepsOfOlderOnes) {
  const auto folder = std::filesystem::temp_directory_path() / ("optimus_tensorboard_test_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EventFile file(folder, 7);
  const std::vector<Scalar> scalars = {{"loss/lm", 2.0}};
  file.add(7, scalars);
  Index files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    EXPECT_TRUE(entry.path().filename().string().starts_with("events.out.tfevents."));
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    EXPECT_NE(bytes.find("brain.Event:2"), std::string::npos);
    EXPECT_NE(bytes.find("loss/lm"), std::string::npos);
    EXPECT_NE(hex(bytes).find("3a020801"), std::string::npos) << "a session start at the first step";
  }
  EXPECT_EQ(files, 1);
}

}  // namespace
}  // namespace optimus
