// optimus convert: between Hugging Face folders and checkpoints.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "optimus/base/log.hpp"
#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/elements.hpp"
#include "optimus/checkpoint/hugging_face.hpp"
#include "optimus/checkpoint/store.hpp"
#include "optimus/comm/self/self.hpp"
#include "optimus/model/config.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {
namespace {

constexpr const char* kExamples =
    R"(Weights keep their type unless --dtype asks for another one. --dtype fp32 takes the master weights where a checkpoint has them.

Examples:
  optimus convert to-hf runs/default --out exported
  optimus convert to-hf runs/default/checkpoints/persistent/step-1000 --out exported --dtype bf16
  optimus convert from-hf OLMoE-1B-7B-0924 --out start)";

struct ConvertCommand {
  std::string in, out, dtype;
};

/// "bf16" or "fp32" as the user writes it, or `otherwise` if nothing was written.
DType wanted_dtype(const ConvertCommand& command, DType otherwise) {
  if (command.dtype.empty()) return otherwise;
  return command.dtype == "bf16" ? DType::kBF16 : DType::kF32;
}

std::string config_dtype(DType dtype) { return dtype == DType::kBF16 ? "bfloat16" : "float32"; }

Box entry_box(const ParamSpec& spec, Index entry) {
  Box box = Box::whole(spec.shape);
  if (!spec.is_stacked()) return box;
  box.begin.set(0, entry);
  box.shape.set(0, 1);
  return box;
}

ExitCode to_hf(const ConvertCommand& command) {
  const ModelSource source = find_model(command.in);
  if (!source.is_checkpoint) throw CheckpointError(fmt::format("[convert] {} is a Hugging Face folder already", command.in));
  const ModelConfig config = parse_hf_config(source.config_json, source.config_origin);
  const DType dtype = wanted_dtype(command, source.weights_dtype == dtype_name(DType::kBF16) ? DType::kBF16 : DType::kF32);
  const std::vector<ParamSpec> specs = parameter_specs(config);
  const WeightCopy copy = dtype == DType::kF32 ? WeightCopy::kMasterIfThere : WeightCopy::kWeights;
  const WeightReader read = open_weights(source, specs, config.tie_word_embeddings, copy);
  write_hf_folder(command.out, write_hf_config(config, config_dtype(dtype)), specs, dtype,
                  [&](const ParamSpec& spec, Index entry, View out) { read(spec, entry_box(spec, entry), 0, out.reshaped({out.count()})); });
  log_info("[convert] {} is in {} ({}, {} parameters)", source.folder.string(), command.out, dtype_name(dtype), count_parameters(config).total);
  return ExitCode::kDone;
}

ExitCode from_hf(const ConvertCommand& command) {
  const std::filesystem::path folder = command.in;
  check_may_be_replaced(command.out);
  const ModelConfig config = read_hf_config(folder / "config.json");
  const std::vector<ParamSpec> specs = parameter_specs(config);
  const HfWeights weights(folder, specs, config.tie_word_embeddings);
  const DType dtype = wanted_dtype(command, weights.exact_dtype());
  Index largest = 0, bytes = 0;
  for (const ParamSpec& spec : specs) {
    largest = std::max(largest, spec.shape.count());
    bytes = checked_add(bytes, round_up(spec.shape.count() * dtype_bytes(dtype), 64));
  }
  Arena arena(bytes);
  const Buffer values(largest * dtype_bytes(DType::kF32));
  std::vector<Chunk> chunks;
  for (const ParamSpec& spec : specs) {
    const Shape flat{spec.shape.count()};
    const View value(values.data(), DType::kF32, flat), out = arena.alloc(dtype, flat);
    weights.read(spec, Box::whole(spec.shape), 0, value);
    round_elements(value, out);
    chunks.push_back({.name = "model." + spec.name, .global_shape = spec.shape, .box = Box::whole(spec.shape), .flat_begin = 0, .data = out});
  }
  const CheckpointInfo info{.folder = {},
                            .is_full_state = false,
                            .position = {},
                            .hf_config = write_hf_config(config, config_dtype(dtype)),
                            .run_config = "",
                            .layout = "one rank, from a Hugging Face folder",
                            .weights_dtype = std::string(dtype_name(dtype))};
  const auto self = make_self_communicator();
  write_checkpoint(*self, command.out, info, chunks);
  log_info("[convert] {} is in {} ({}, {} parameters)", command.in, command.out, dtype_name(dtype), count_parameters(config).total);
  return ExitCode::kDone;
}

}  // namespace

void add_convert_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("convert", "Turn checkpoints into Hugging Face folders and back");
  command->require_subcommand(1);
  command->footer(kExamples);
  const auto options = std::make_shared<ConvertCommand>();
  const auto add = [&](const char* name, const char* help, const char* in, const char* in_help, ExitCode (*run)(const ConvertCommand&)) {
    CLI::App* sub = command->add_subcommand(name, help);
    sub->add_option(in, options->in, in_help)->required();
    sub->add_option("--out", options->out, "Folder to write")->required()->check(not_empty())->type_name("DIR");
    sub->add_option("--dtype", options->dtype, "Type of the weights written (default: as they are)")
        ->check(CLI::IsMember({"bf16", "fp32"}))
        ->type_name("bf16|fp32");
    sub->footer(kExamples);
    sub->callback([options, run, &action] { action = [options, run] { return run(*options); }; });
  };
  add("to-hf", "Write config.json and safetensors files that transformers loads", "CHECKPOINT", "Checkpoint, or a run folder: its newest complete one", to_hf);
  add("from-hf", "Write a model-only checkpoint from a Hugging Face folder", "DIR", "Folder with config.json and safetensors files", from_hf);
}

}  // namespace optimus
