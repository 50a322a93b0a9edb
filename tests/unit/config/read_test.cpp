#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "example_config.hpp"

namespace optimus::example {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ReadConfig, KeepsDefaultsOfWhatIsNotSet) { EXPECT_EQ(read_config_text<Config>(""), Config{}); }

TEST(ReadConfig, TakesEveryKindOfValue) {
  const auto c = read_config_text<Config>(R"(
name = "x"
sources = [{path = "a"}, {path = "b", weight = 2}]
[model]
hidden_size = 128
clip_qkv = 8.0
inner.depth = 0
[optimizer]
lr = 0
betas = [0, 0.5]
schedule = "linear"
is_fast = false
stages = [1, 2]
signals = []
flags = [true, false]
)");
  EXPECT_EQ(c.name, "x");
  EXPECT_EQ(c.model, (Model{.hidden_size = 128, .num_heads = 4, .clip_qkv = 8.0, .inner = {.depth = 0}}));
  EXPECT_EQ(c.optimizer.lr, 0.0);
  EXPECT_THAT(c.optimizer.betas, ElementsAre(0.0, 0.5));
  EXPECT_EQ(c.optimizer.schedule, "linear");
  EXPECT_FALSE(c.optimizer.is_fast);
  EXPECT_THAT(c.optimizer.stages, ElementsAre(1, 2));
  EXPECT_THAT(c.optimizer.signals, ElementsAre());
  EXPECT_EQ(c.optimizer.flags, (std::vector<bool>{true, false}));
  EXPECT_THAT(c.sources, ElementsAre(Source{"a", 1.0}, Source{"b", 2.0}));
}

TEST(ReadConfig, NamesFileLineKeyAndValueOfAWrongType) {
  EXPECT_EQ(error_of("\n[model]\nhidden_size = \"many\"\n"),
            "[config] 1 problem in the configuration (run.toml):\n  1. run.toml:3: model.hidden_size: must be an integer; found \"many\" (a string)");
  EXPECT_THAT(error_of("[model]\nhidden_size = 64.0"), HasSubstr("model.hidden_size: must be an integer; found 64.0 (a number with a fraction)"));
  EXPECT_THAT(error_of("name = 1"), HasSubstr("run.toml:1: name: must be a string; found 1 (an integer)"));
  EXPECT_THAT(error_of("[optimizer]\nis_fast = 1"), HasSubstr("must be true or false; found 1 (an integer)"));
  EXPECT_THAT(error_of("[optimizer]\nbetas = 0.9"), HasSubstr("must be a list of numbers; found 0.9"));
  EXPECT_THAT(error_of("[optimizer]\nbetas = [0.9,\n'x']"), HasSubstr("run.toml:3: optimizer.betas[1]: must be a number; found \"x\" (a string)"));
  EXPECT_THAT(error_of("name = 2024-01-02"), HasSubstr("must be a string; found 2024-01-02 (a date or time)"));
  EXPECT_THAT(error_of("model = 3"), HasSubstr("run.toml:1: model: must be a table; found 3 (an integer)"));
  EXPECT_THAT(error_of("sources = 3"), HasSubstr("sources: must be a list of tables; found 3"));
  EXPECT_THAT(error_of("sources = [3]"), HasSubstr("sources[0]: must be a table; found 3"));
  EXPECT_THAT(error_of("[name]\na = 1"), HasSubstr("name: must be a string; found {...} (a table)"));
}

TEST(ReadConfig, NamesTheBoundThatAValueCrosses) {
  EXPECT_THAT(error_of("[model]\nhidden_size = 0"), HasSubstr("run.toml:2: model.hidden_size: must be at least 1; found 0"));
  EXPECT_THAT(error_of("[model]\nclip_qkv = 0.0"), HasSubstr("model.clip_qkv: must be above 0; found 0"));
  EXPECT_THAT(error_of("[optimizer]\nbetas = [0.5, 1.5]"), HasSubstr("optimizer.betas[1]: must be at least 0 and at most 1; found 1.5"));
  EXPECT_THAT(error_of("[optimizer]\nlr = nan"), HasSubstr("optimizer.lr: must be a finite number; found nan"));
  EXPECT_THAT(error_of("[optimizer]\nlr = inf"), HasSubstr("optimizer.lr: must be a finite number; found inf"));
  EXPECT_THAT(error_of("[[sources]]\npath = 'a'\nweight = 0"), HasSubstr("run.toml:3: sources[0].weight: must be above 0; found 0"));
}

TEST(ReadConfig, ListsTheAllowedChoicesAndGuessesTheMeantOne) {
  EXPECT_THAT(error_of("[optimizer]\nschedule = \"cosin\""),
              HasSubstr("run.toml:2: optimizer.schedule: must be one of \"cosine\", \"linear\"; found \"cosin\" (a string); did you mean \"cosine\"?"));
  EXPECT_THAT(error_of("[optimizer]\nschedule = \"zigzag\""), AllOf(HasSubstr("found \"zigzag\""), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(error_of("[optimizer]\nschedule = 3"), HasSubstr("found 3 (an integer)"));
}

TEST(ReadConfig, NamesTheNearestValidKeyOfAnUnknownOne) {
  EXPECT_THAT(error_of("[model]\nhiden_size = 1"), HasSubstr("run.toml:2: model.hiden_size: unknown key; the nearest valid key is model.hidden_size"));
  EXPECT_THAT(error_of("[modle]\nhidden_size = 1"), HasSubstr("modle: unknown key; the nearest valid key is model"));
  EXPECT_THAT(error_of("lr = 1"), HasSubstr("the nearest valid key is optimizer.lr"));
  EXPECT_THAT(error_of("[model]\nschedule = 'cosine'"), HasSubstr("the nearest valid key is optimizer.schedule"));
  EXPECT_THAT(error_of("[[sources]]\nwieght = 1"), HasSubstr("sources[0].wieght: unknown key; the nearest valid key is sources[].weight"));
}

TEST(ReadConfig, ReportsAllProblemsAtOnce) {
  const std::string message =
      error_of("nam = 'x'\n[model]\nhidden_size = 65\nclip_qkv = true\n[optimizer]\nlr = -1\nschedule = 'x'\n[[sources]]\nweight = 'a'\n");
  EXPECT_THAT(message, HasSubstr("6 problems"));
  for (const char* part : {"run.toml:1: nam:", "run.toml:3: model.hidden_size: must be a multiple", "run.toml:4: model.clip_qkv:", "run.toml:6: optimizer.lr:",
                           "run.toml:7: optimizer.schedule:", "run.toml:9: sources[0].weight:", "\n  1. ", "\n  6. "}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(ReadConfig, GivesAConditionTheLineOfItsTableIfItsKeyIsNotSet) {
  EXPECT_THAT(error_of("\n[model]\nnum_heads = 5"), HasSubstr("run.toml:2: model.hidden_size: must be a multiple of model.num_heads; found 64 and 5"));
}

TEST(ReadConfig, NamesLineAndColumnOfBrokenToml) {
  EXPECT_THAT(error_of("name = \"x\"\n[model\n"), AllOf(HasSubstr("[config] run.toml:2:"), HasSubstr("not valid TOML")));
  EXPECT_THAT(error_of("name = 1\nname = 2\n"), AllOf(HasSubstr("run.toml:2:"), HasSubstr("not valid TOML")));
  EXPECT_THAT(error_of(std::string_view("a = \"\xff\"", 7)), HasSubstr("run.toml:1:"));
}

TEST(ReadConfig, SaysWhichFileIsMissing) {
  try {
    (void)read_config<Config>("/nonexistent/run.toml");
    FAIL() << "read a file that is not there";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("/nonexistent/run.toml"), HasSubstr("No such file")));
    EXPECT_EQ(e.code(), ExitCode::kConfig);
  }
}

TEST(ReadConfig, ResolvesBeforeItValidatesAndTellsWhatIsSet) {
  ConfigSource source("[model]\nnum_heads = 5\n", "run.toml", {});
  const auto config = read_config<Config>(std::move(source), [](Config& c, const ConfigSource& s, Problems&) {
    EXPECT_TRUE(s.is_set("model.num_heads"));
    EXPECT_FALSE(s.is_set("model.hidden_size"));
    c.model.hidden_size = 50;
  });
  EXPECT_EQ(config.model.hidden_size, 50);
}

TEST(ReadConfig, PutsProblemsOfResolvingIntoTheSameList) {
  ConfigSource source("[model]\nnum_heads = 0\n", "run.toml", {});
  try {
    (void)read_config<Config>(std::move(source), [](Config&, const ConfigSource&, Problems& problems) { problems.add("name", "no such preset"); });
    FAIL() << "no error";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("2 problems"), HasSubstr("run.toml: name: no such preset"), HasSubstr("model.num_heads: must be at least 1; found 0")));
  }
}

TEST(Overrides, WinOverTheFile) {
  const auto c = read_config_text<Config>("[model]\nhidden_size = 8\n", "run.toml", {"model.hidden_size=16", "optimizer.lr=1e-3", "model.inner.depth=7"});
  EXPECT_EQ(c.model.hidden_size, 16);
  EXPECT_EQ(c.optimizer.lr, 1e-3);
  EXPECT_EQ(c.model.inner.depth, 7);
}

TEST(Overrides, TakeWhatIsNotTomlAsAString) {
  EXPECT_EQ(read_config_text<Config>("", "run.toml", {"name=/some/path with = signs"}).name, "/some/path with = signs");
  EXPECT_EQ(read_config_text<Config>("", "run.toml", {"name=\"quoted\""}).name, "quoted");
  EXPECT_EQ(read_config_text<Config>("", "run.toml", {"name="}).name, "");
  EXPECT_EQ(read_config_text<Config>("", "run.toml", {"name=1\nlr = 2"}).name, "1\nlr = 2");
}

TEST(Overrides, ReachListsOfTables) {
  const auto c = read_config_text<Config>("[[sources]]\npath = 'a'\n", "run.toml", {"sources[0].weight=3", "sources[1].path=b", "sources.1.weight=4"});
  EXPECT_THAT(c.sources, ElementsAre(Source{"a", 3.0}, Source{"b", 4.0}));
  EXPECT_THAT(read_config_text<Config>("", "run.toml", {"sources=[{path=\"z\"}]"}).sources, ElementsAre(Source{"z", 1.0}));
  EXPECT_THAT(read_config_text<Config>("[optimizer]\nstages=[1,2]", "run.toml", {"optimizer.stages[1]=9"}).optimizer.stages, ElementsAre(1, 9));
}

TEST(Overrides, MergeInlineTables) {
  const auto c = read_config_text<Config>("[model]\nnum_heads = 2\n", "run.toml", {"model={hidden_size=6}"});
  EXPECT_EQ(c.model.num_heads, 2);
  EXPECT_EQ(c.model.hidden_size, 6);
}

TEST(Overrides, AreNamedInTheirErrors) {
  EXPECT_THAT(error_of("", {"model.hidden_size=0"}), HasSubstr("1. --set model.hidden_size=0: model.hidden_size: must be at least 1; found 0"));
  EXPECT_THAT(error_of("", {"model.hiden_size=1"}),
              HasSubstr("--set model.hiden_size=1: model.hiden_size: unknown key; the nearest valid key is model.hidden_size"));
  EXPECT_THAT(error_of("", {"modelhidden"}), HasSubstr("--set modelhidden: not of the form key.path=value"));
  EXPECT_THAT(error_of("", {"=3"}), HasSubstr("not of the form key.path=value"));
  EXPECT_THAT(error_of("", {"a..b=3"}), HasSubstr("not of the form key.path=value"));
  EXPECT_THAT(error_of("", {"sources[x].path=3"}), HasSubstr("not of the form key.path=value"));
  EXPECT_THAT(error_of("name = 'x'", {"name.first=3"}), HasSubstr("--set name.first=3: nothing has the key name.first"));
  EXPECT_THAT(error_of("[[sources]]\npath='a'", {"sources[2].path=b"}), HasSubstr("nothing has the key sources[2].path"));
  EXPECT_THAT(error_of("", {"bad", "optimizer.lr=-1"}), HasSubstr("2 problems"));
}

}  // namespace
}  // namespace optimus::example
