#include <algorithm>
#include <cstring>

#include "optimus/base/random.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/model/initialize.hpp"
#include "tests/support/model_testing.hpp"

namespace optimus::test {
namespace {

std::vector<View> allocate(const std::vector<ParamSpec>& specs, DType dtype, std::vector<Buffer>& memory) {
  std::vector<View> views;
  for (const ParamSpec& spec : specs) {
    memory.emplace_back(spec.shape.count() * dtype_bytes(dtype));
    views.emplace_back(memory.back().data(), dtype, spec.shape);
  }
  return views;
}

}  // namespace

Parameters::Parameters(const ModelConfig& config, DType weights, DType gradients) : specs_(parameter_specs(config)) {
  weights_ = allocate(specs_, weights, memory_);
  gradients_ = allocate(specs_, gradients, memory_);
  zero_gradients();
}

void Parameters::set_weight(std::size_t i, const std::vector<float>& values) {
  const View& out = weights_[i];
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (out.dtype() == DType::kF64) out.as<double>()[j] = static_cast<double>(values[j]);
    else if (out.dtype() == DType::kBF16) out.as<BFloat16>()[j] = BFloat16(values[j]);
    else out.as<float>()[j] = values[j];
  }
}

void Parameters::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(specs_[i].shape.count()));
    optimus::initialize(specs_[i], Box::whole(specs_[i].shape), 0, seed,
                        View(reinterpret_cast<std::byte*>(values.data()), DType::kF32, {static_cast<Index>(values.size())}));
    if (specs_[i].init == Init::kOnes) {
      const RandomStream stream(seed, "test gain", specs_[i].name);
      for (std::size_t j = 0; j < values.size(); ++j) values[j] = 1.0F + 0.2F * stream.normal(static_cast<Index>(j));
    }
    set_weight(i, values);
  }
}

void Parameters::load(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const ParamSpec& spec = specs_[i];
    const Index entries = spec.is_stacked() ? spec.shape[0] : 1, count = spec.shape.count() / entries;
    std::vector<float> values(static_cast<std::size_t>(spec.shape.count()));
    for (Index entry = 0; entry < entries; ++entry) {
      const SafetensorsEntry* tensor = file.find(spec.tensor_name(entry));
      if (tensor == nullptr) throw CheckpointError("no tensor " + spec.tensor_name(entry));
      file.read(*tensor, View(reinterpret_cast<std::byte*>(values.data() + entry * count), DType::kF32, tensor->shape));
    }
    set_weight(i, values);
  }
}

void Parameters::zero_gradients() {
  for (const View& view : gradients_) std::memset(view.data(), 0, static_cast<std::size_t>(view.bytes()));
}

std::string Parameters::gradient_bytes() const {
  std::string bytes;
  for (const View& view : gradients_) bytes.append(reinterpret_cast<const char*>(view.data()), static_cast<std::size_t>(view.bytes()));
  return bytes;
}

std::vector<double> Parameters::gradient(std::size_t i) const { return to_double(gradients_[i]); }

}  // namespace optimus::test
