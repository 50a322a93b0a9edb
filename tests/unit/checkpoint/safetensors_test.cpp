#include "optimus/checkpoint/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

std::string with_header(const std::string& header, std::size_t data_bytes) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xffU);
  return length + header + std::string(data_bytes, 'x');
}

void write_example(const std::filesystem::path& path) {
  SafetensorsWriter writer(path,
                           {{.name = "a", .dtype = DType::kF32, .shape = {2, 3}},
                            {.name = "none", .dtype = DType::kF32, .shape = {0, 3}},
                            {.name = "b", .dtype = DType::kBF16, .shape = {}}},
                           {{"format", "pt"}});
  const std::vector<float> a{1, 2, 3, 4, 5, 6};
  writer.write(std::as_bytes(std::span(a)).first(10));
  writer.write(std::as_bytes(std::span(a)).subspan(10));
  const std::uint16_t b = 0x3f80;
  writer.write(std::as_bytes(std::span(&b, 1)));
  EXPECT_EQ(writer.xxh64s(), (std::vector{xxh64(std::as_bytes(std::span(a))), xxh64(std::string_view()), xxh64(std::as_bytes(std::span(&b, 1)))}));
  writer.commit();
}

// What opening the file says; empty if it opens.
std::string problem_of(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
    return "";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    return error.what();
  }
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  write_example(folder.path() / "x.safetensors");
  const SafetensorsFile file(folder.path() / "x.safetensors");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.entries().size(), 3U);
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.find("c"), nullptr);
  std::vector<float> a(6);
  file.read(*file.find("a"), View(reinterpret_cast<std::byte*>(a.data()), DType::kF32, {2, 3}));
  EXPECT_EQ(a, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(file.find("b")->shape.ndim(), 0);
  EXPECT_EQ(file.header_bytes() % 8, 0);
}

TEST(Safetensors, CommitsOnlyWhatIsComplete) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  {
    SafetensorsWriter writer(path, {{.name = "a", .dtype = DType::kF32, .shape = {2}}});
    const float value = 1;
    writer.write(std::as_bytes(std::span(&value, 1)));
    EXPECT_THROW(writer.commit(), InternalError);
    writer.write(std::as_bytes(std::span(&value, 1)));
    EXPECT_THROW(writer.write(std::as_bytes(std::span(&value, 1))), InternalError);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, NamesWhatIsWrongWithAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  EXPECT_THAT(problem_of(path), HasSubstr("No such file"));
  const auto check = [&](const std::string& bytes, const std::string& expected) {
    test::write_bytes(path, bytes);
    EXPECT_THAT(problem_of(path), HasSubstr(expected));
  };
  check("", "empty");
  check("abc", "only 3 bytes");
  check("version https://git-lfs.github.com/spec/v1\n", "Git LFS");
  check("PK\x03\x04 this is another kind of file", "not a safetensors file");
  check(with_header(R"({"a":)", 0), "not a JSON object");
  check(with_header("[1, 2]", 0), "not a JSON object");
  check(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4), "names a twice");
  check(with_header(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4), "tensor a: dtype \"F8_E4M3\"");
  check(with_header(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "data_offsets is missing");
  check(with_header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "shape [-1]");
  check(with_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0), "not a list of sizes");
  check(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), "needs 8 bytes");
  check(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "needs 4 bytes");
  check(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "bytes 0 to 4 belong to no tensor");
  check(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
        "tensor b overlaps");
  check(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7), "cut short");
  check(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9), "1 bytes follow");
  check(with_header(R"({"__metadata__":{"n":1}})", 0), "__metadata__ n is not a string");
}

TEST(Safetensors, NamesAllProblemsAtOnce) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  test::write_bytes(path, with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"F7","shape":[2],"data_offsets":[0,4]}})", 4));
  EXPECT_THAT(problem_of(path), AllOf(HasSubstr("tensor a"), HasSubstr("tensor b"), HasSubstr("2 problems")));
}

TEST(Safetensors, NoticesEveryLengthThatIsTooShort) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  write_example(path);
  const std::string whole = test::read_bytes(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    test::write_bytes(path, whole.substr(0, size));
    EXPECT_NE(problem_of(path), "") << size << " bytes of " << whole.size();
  }
}

}  // namespace
}  // namespace optimus
