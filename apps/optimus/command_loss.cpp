// optimus loss: a run's loss as a picture, beside the loss of guessing by frequency.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/optimus/commands.hpp"
#include "optimus/data/statistics.hpp"
#include "optimus/train/loss_picture.hpp"

namespace optimus {
namespace {

struct LossArguments {
  std::string run_dir, dataset;
  Index columns = 72, rows = 12;
};

ExitCode show(const LossArguments& a) {
  const std::vector<CurvePoint> losses = read_losses(a.run_dir + "/metrics.jsonl");
  if (losses.empty()) throw DataError(fmt::format("[loss] {}/metrics.jsonl has no step yet", a.run_dir));
  fmt::print("{}", draw_curve(losses, a.columns, a.rows));
  fmt::print("loss at step {:.0f}: {:.4f} nats a token\n", losses.back().x, losses.back().y);
  if (!a.dataset.empty())
    fmt::print("unigram entropy of the corpus: {:.4f} nats a token, the best loss without any context\n", unigram_entropy(Dataset(a.dataset)));
  return ExitCode::kDone;
}

}  // namespace

void add_loss_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("loss", "Draw the loss of a run in the terminal");
  command->footer("Examples:\n  optimus loss runs/quickstart\n  optimus loss runs/quickstart --dataset runs/quickstart/data");
  auto a = std::make_shared<LossArguments>();
  command->add_option("run", a->run_dir, "Run folder")->required()->type_name("RUN_DIR");
  command->add_option("--dataset", a->dataset, "Prepared folder whose unigram entropy to print beside it (reads all of it)")->type_name("DIR");
  command->add_option("--columns", a->columns, "Width of the picture in characters")->check(CLI::Range(8, 500))->capture_default_str();
  command->add_option("--rows", a->rows, "Height of the picture in characters")->check(CLI::Range(2, 200))->capture_default_str();
  command->callback([&action, a] { action = [a] { return show(*a); }; });
}

}  // namespace optimus
