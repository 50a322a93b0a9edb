#include "optimus/checkpoint/manifest.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <vector>

#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

// Their checksums fit: a program that wrote nonsense, or a person.
TEST(Manifest, RefusesPositionsThatNoRunCanHave) {
  Manifest manifest;
  manifest.info.position = {.step = 5, .tokens = 80, .next_sample = 40, .epoch = 1, .adam_step = 5, .nonfinite_steps = 0};
  EXPECT_EQ(parse_manifest(manifest_text(manifest), "folder").info.position.step, 5);
  TrainingPosition& position = manifest.info.position;
  const std::vector<Index*> fields{&position.step,      &position.tokens,          &position.next_sample,  &position.epoch,
                                   &position.adam_step, &position.nonfinite_steps, &manifest.info.sequence};
  for (Index* field : fields) {
    const Index good = *field;
    for (const Index bad : {Index{-1}, std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max()}) {
      *field = bad;
      EXPECT_THROW((void)parse_manifest(manifest_text(manifest), "folder"), CheckpointError) << bad;
    }
    *field = good;
  }
}

TEST(Manifest, IsNotWaitedForWhereItIsAPipe) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "manifest.json").c_str(), 0600), 0);
  EXPECT_THROW((void)read_manifest(folder.path()), CheckpointError);
}

}  // namespace
}  // namespace optimus
