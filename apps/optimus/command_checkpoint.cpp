// optimus checkpoint: what is in a checkpoint, whether it is whole, and all of it in one file.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/base/log.hpp"
#include "optimus/checkpoint/checkpoint.hpp"

namespace optimus {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(DIR is a checkpoint, or a run folder: its newest complete checkpoint.

Examples:
  optimus checkpoint inspect runs/default
  optimus checkpoint inspect runs/default/checkpoints/slot-1 --json
  optimus checkpoint verify runs/default/checkpoints/slot-0
  optimus checkpoint consolidate runs/default --out state.safetensors)";

struct CheckpointCommand {
  std::string folder, out;
  bool json = false;
};

Json shape_json(const Shape& shape) {
  Json sizes = Json::array();
  for (int d = 0; d < shape.ndim(); ++d) sizes.push_back(shape[d]);
  return sizes;
}

Json contents_json(const CheckpointContents& contents) {
  const CheckpointInfo& info = contents.info;
  const TrainingPosition& p = info.position;
  Json json{{"folder", info.folder.string()},
            {"full_state", info.is_full_state},
            {"step", p.step},
            {"tokens", p.tokens},
            {"next_sample", p.next_sample},
            {"epoch", p.epoch},
            {"adam_step", p.adam_step},
            {"nonfinite_steps", p.nonfinite_steps},
            {"layout", info.layout},
            {"weights_dtype", info.weights_dtype},
            {"bytes", contents.bytes}};
  json["files"] = Json::array();
  for (const auto& file : contents.files) json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"chunks", file.chunks}});
  json["tensors"] = Json::array();
  for (const auto& t : contents.tensors) {
    json["tensors"].push_back({{"name", t.name}, {"dtype", dtype_name(t.dtype)}, {"shape", shape_json(t.shape)}, {"chunks", t.chunks}, {"bytes", t.bytes}});
  }
  return json;
}

void print_table(const CheckpointContents& contents) {
  const CheckpointInfo& info = contents.info;
  const TrainingPosition& p = info.position;
  const auto row = [](std::string_view name, const auto& value) { fmt::print("{:<12} {}\n", name, value); };
  row("folder", info.folder.string());
  row("state", info.is_full_state ? "full: weights, master weights, moments" : "model only");
  row("position", fmt::format("step {}, {}, epoch {}, next sample {}, {}, {} skipped", p.step, counted(p.tokens, "token"), p.epoch, p.next_sample,
                              counted(p.adam_step, "update"), counted(p.nonfinite_steps, "step")));
  row("weights", info.weights_dtype);
  row("layout", info.layout);
  row("size", fmt::format("{} bytes in {}", contents.bytes, counted(contents.files.size(), "file")));
  std::size_t width = 6;
  for (const auto& tensor : contents.tensors) width = std::max(width, tensor.name.size());
  fmt::print("\n{:<{}}  {:<5} {:<20} {:>7} {:>15}\n", "tensor", width, "dtype", "shape", "chunks", "bytes");
  for (const auto& t : contents.tensors)
    fmt::print("{:<{}}  {:<5} {:<20} {:>7} {:>15}\n", t.name, width, dtype_name(t.dtype), t.shape.str(), t.chunks, t.bytes);
  fmt::print("\n{:<40} {:>7} {:>15}\n", "file", "chunks", "bytes");
  for (const auto& file : contents.files) fmt::print("{:<40} {:>7} {:>15}\n", file.name, file.chunks, file.bytes);
}

ExitCode inspect(const CheckpointCommand& command) {
  const CheckpointContents contents = read_contents(find_checkpoint(command.folder).folder);
  if (command.json) fmt::print("{}\n", contents_json(contents).dump(1));
  else print_table(contents);
  return ExitCode::kDone;
}

ExitCode verify(const CheckpointCommand& command) {
  const CheckpointInfo info = find_checkpoint(command.folder);
  const auto problems = verify_checkpoint(info.folder);
  if (!problems.empty()) {
    std::string message = fmt::format("[checkpoint] {} is damaged:", info.folder.string());
    for (const std::string& problem : problems) message += "\n  " + problem;
    throw CheckpointError(message);
  }
  const CheckpointContents contents = read_contents(info.folder);
  fmt::print("{} is whole: step {}, {}, {} bytes in {}\n", info.folder.string(), info.position.step, counted(contents.tensors.size(), "tensor"), contents.bytes,
             counted(contents.files.size(), "file"));
  return ExitCode::kDone;
}

ExitCode consolidate(const CheckpointCommand& command) {
  const CheckpointInfo info = find_checkpoint(command.folder);
  consolidate_checkpoint(info.folder, command.out);
  log_info("[checkpoint] {} (step {}) is in {}", info.folder.string(), info.position.step, command.out);
  return ExitCode::kDone;
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("checkpoint", "Look at, verify and join the files of checkpoints");
  command->require_subcommand(1);
  command->footer(kExamples);
  const auto options = std::make_shared<CheckpointCommand>();
  const auto add = [&](const char* name, const char* help, ExitCode (*run)(const CheckpointCommand&)) {
    CLI::App* sub = command->add_subcommand(name, help);
    sub->add_option("DIR", options->folder, "Checkpoint or run folder")->required()->check(not_empty());
    sub->footer(kExamples);
    sub->callback([options, run, &action] { action = [options, run] { return run(*options); }; });
    return sub;
  };
  add("inspect", "Print position, layout, tensors and files", inspect)->add_flag("--json", options->json, "As one JSON object");
  add("verify", "Check every size and checksum (exit 4 if anything is wrong)", verify);
  add("consolidate", "Write one safetensors file with whole tensors, the same for every layout", consolidate)
      ->add_option("--out", options->out, "File to write")
      ->required()
      ->check(not_empty())
      ->type_name("FILE.safetensors");
}

}  // namespace optimus
