#include "optimus/train/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include "optimus/base/check.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/log.hpp"
#include "optimus/train/fault_target.hpp"

namespace optimus {
namespace {

double bad_number(const FaultConfig& fault) { return fault.kind == "nan" ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity(); }

void spoil(const FaultConfig& fault, const ModelSplit& split, const std::vector<ParamSpec>& specs, std::span<const View> views) {
  const auto tensor = find_tensor(specs, fault.tensor);
  OPTIMUS_CHECK(tensor.has_value(), "a fault in a parameter of another rank");
  const auto element = first_element(specs[tensor->parameter], *tensor, split);
  OPTIMUS_CHECK(element.has_value(), "a fault in an expert of another rank");
  const View& view = views[tensor->parameter];
  if (view.dtype() == DType::kF32) view.as<float>()[*element] = static_cast<float>(bad_number(fault));
  else view.as<BFloat16>()[*element] = BFloat16(static_cast<float>(bad_number(fault)));
}

bool spoils_numbers(const FaultConfig& fault) { return fault.kind == "nan" || fault.kind == "inf"; }
bool refuses_to_write(const FaultConfig& fault) { return fault.kind == "write_error" || fault.kind == "disk_full"; }
bool stops_process(const FaultConfig& fault) { return !spoils_numbers(fault) && !refuses_to_write(fault) && fault.kind != "torn_write"; }

}  // namespace

FaultInjector::FaultInjector(const RunConfig& config, const Mesh& mesh, Index rank)
    : faults_(config.faults), struck_in_(faults_.size()), rank_(rank), split_(model_split(mesh, rank)), run_dir_(config.run.dir) {}

bool FaultInjector::strikes(std::size_t index, Index step) {
  const FaultConfig& fault = faults_[index];
  const std::lock_guard lock(mutex_);
  if (struck_in_[index] == step || (fault.once && struck_in_[index] != 0)) return false;
  struck_in_[index] = step;
  if (fault.once) {
    const auto mark = run_dir_ / "debug" / fmt::format("fault-{}-struck", index);
    if (std::filesystem::exists(mark)) return false;
    make_folders(mark.parent_path());
    write_file_atomically(mark, fmt::format("{} on rank {} in step {}\n", fault.kind, fault.rank, fault.step));
  }
  log_warning("[faults] {} on rank {}, step {}", fault.kind, fault.rank, step);
  return true;
}

void FaultInjector::strike_process(const FaultConfig& fault) const {
  if (fault.kind == "die") std::raise(SIGKILL);
  if (fault.kind == "stop") {
    std::raise(SIGSTOP);
    return;
  }
  if (fault.kind == "error") throw Error(fmt::format("[faults] error on rank {} in step {}, phase {}, as configured", fault.rank, fault.step, fault.phase));
  const auto pause = std::chrono::duration<double>(fault.kind == "slow" ? fault.seconds : 1.0);
  do std::this_thread::sleep_for(pause);
  while (fault.kind == "hang");
}

void FaultInjector::arm(Index step, TrainStep& train_step, TransferWatch& transfers, StepHooks& hooks) {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const FaultConfig& fault = faults_[i];
    if (fault.rank != rank_ || fault.step != step || !spoils_numbers(fault) || !strikes(i, step)) continue;
    if (fault.where == "weight")
      hooks.before_forward = [fault, this, &train_step] { spoil(fault, split_, train_step.specs(), train_step.optimizer().weights()); };
    else if (fault.where == "loss") hooks.local_loss = [fault](double) { return bad_number(fault); };
    else if (fault.where == "activation") hooks.before_forward = [fault, &transfers] { transfers.spoil_next(bad_number(fault)); };
    else hooks.after_backward = [fault, this, &train_step] { spoil(fault, split_, train_step.specs(), train_step.optimizer().gradients()); };
  }
}

void FaultInjector::at(Index step, Activity phase) {
  const bool is_about_saving = phase == Activity::kSave || phase == Activity::kPublish || phase == Activity::kShutdown;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const FaultConfig& fault = faults_[i];
    if (fault.rank != rank_ || !stops_process(fault) || fault.phase != activity_name(phase)) continue;
    const bool is_time = is_about_saving ? step >= fault.step : step == fault.step;
    if (is_time && strikes(i, step)) strike_process(fault);
  }
}

void FaultInjector::before_checkpoint(Index step) {
  at(step, Activity::kSave);
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const FaultConfig& fault = faults_[i];
    if (refuses_to_write(fault) && fault.after_bytes == 0 && fault.rank == rank_ && step >= fault.step && strikes(i, step)) refuse_to_write(fault);
  }
}

void FaultInjector::during_checkpoint(Index step, Index bytes, Index of_bytes) {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const FaultConfig& fault = faults_[i];
    const bool refuses = refuses_to_write(fault) && fault.after_bytes > 0;
    const bool stops = stops_process(fault) && fault.phase == activity_name(Activity::kWrite);
    if (fault.rank != rank_ || step < fault.step || !(refuses || stops) || bytes < std::min(fault.after_bytes, of_bytes) || !strikes(i, step)) continue;
    if (refuses) refuse_to_write(fault);
    strike_process(fault);
  }
}

void FaultInjector::refuse_to_write(const FaultConfig& fault) const {
  const std::string where =
      fault.after_bytes > 0 ? fmt::format("after {} bytes on rank {}", fault.after_bytes, fault.rank) : fmt::format("on rank {}", fault.rank);
  if (fault.kind == "disk_full") throw FileError(fmt::format("[faults] cannot write: {} ({}, as configured)", std::generic_category().message(ENOSPC), where));
  throw FileError(fmt::format("[faults] write error {}, as configured", where));
}

void FaultInjector::after_checkpoint(Index step, const std::filesystem::path& folder) {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const FaultConfig& fault = faults_[i];
    if (fault.kind != "torn_write" || fault.rank != rank_ || step < fault.step || !strikes(i, step)) continue;
    std::filesystem::path largest;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".safetensors" && (largest.empty() || entry.file_size() > std::filesystem::file_size(largest))) largest = entry.path();
    }
    if (!largest.empty()) std::filesystem::resize_file(largest, std::filesystem::file_size(largest) / 2);
  }
}

}  // namespace optimus
