#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "example_config.hpp"

namespace optimus::example {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Config unusual() {
  Config c;
  c.name = "quote \" backslash \\ newline \n tab \t bell \a and ü";
  c.model.hidden_size = std::numeric_limits<Index>::max() / 4 * 4;
  c.model.clip_qkv = 0.1;
  c.model.inner.depth = 1;
  c.optimizer = {.lr = 1e-300,
                 .betas = {1.0 / 3.0, 1.0},
                 .schedule = "linear",
                 .is_fast = false,
                 .stages = {3, 0},
                 .signals = {"a", ""},
                 .flags = std::vector<bool>{true, false}};
  c.sources = {{"a", 1e20}, {"b", 0.5}};
  return c;
}

TEST(DumpConfig, ReadsBackEqual) {
  EXPECT_EQ(read_config_text<Config>(dump_config(Config{})), Config{});
  EXPECT_EQ(read_config_text<Config>(dump_config(unusual())), unusual());
}

TEST(DumpConfig, IsItsOwnFixedPoint) { EXPECT_EQ(dump_config(read_config_text<Config>(dump_config(unusual()))), dump_config(unusual())); }

TEST(DumpConfig, WritesValuesBeforeTablesAndMarksWhatIsNotSet) {
  EXPECT_EQ(dump_config(Config{}), R"(name = "default"
sources = []

[model]
hidden_size = 64
num_heads = 4
# clip_qkv is not set

[model.inner]
depth = 3

[optimizer]
lr = 0.0004
betas = [0.9, 0.99]
schedule = "cosine"
is_fast = true
stages = []
signals = ["SIGTERM"]
# flags is not set
)");
}

TEST(HashConfig, ChangesWithAnyValueAndNotWithTheWayItWasSet) {
  Config other;
  other.optimizer.lr = std::nextafter(other.optimizer.lr, 1.0);
  EXPECT_NE(hash_config(Config{}), hash_config(other));
  EXPECT_EQ(hash_config(Config{}), hash_config(read_config_text<Config>("# nothing\n[optimizer]\nlr = 4e-4", "x", {"name=default"})));
}

TEST(DocumentConfig, ListsEveryKeyWithDefaultAndLimits) {
  const std::string text = document_config<Config>();
  EXPECT_THAT(text, AllOf(HasSubstr("## `[model]`\n\nThe model.\n\n| key | default | allowed | meaning |"), HasSubstr("## `[model.inner]`"),
                          HasSubstr("## `[[sources]]`")));
  EXPECT_THAT(text, HasSubstr("| `hidden_size` | `64` | an integer, at least 1 | Width. |"));
  EXPECT_THAT(text, HasSubstr("| `clip_qkv` | not set | a number, above 0 | Limit of q, k and v \\| none. |"));
  EXPECT_THAT(text, HasSubstr("| `schedule` | `\"cosine\"` | `\"cosine\"`, `\"linear\"` | Shape of the rate. |"));
  EXPECT_THAT(text, HasSubstr("| `flags` | not set | a list of true and false | Anything. |"));
}

}  // namespace
}  // namespace optimus::example
