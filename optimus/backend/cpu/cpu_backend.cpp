#include "optimus/backend/cpu/cpu_backend.hpp"

#include <fmt/core.h>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"

namespace optimus {

std::unique_ptr<Backend> make_cpu_backend(int threads) { return std::make_unique<cpu::CpuBackend>(threads, cpu::detect_isa()); }

namespace cpu {

CpuBackend::CpuBackend(int threads, Isa isa) : threads_(threads), isa_(isa), kernels_(kernels_of(isa)) {
  if (threads < 1) throw ConfigError(fmt::format("[cpu] {} threads; at least 1 is needed", threads));
  thread_scratch_.resize(static_cast<std::size_t>(threads));
  reserve_thread_scratch(kernels_.gemm.scratch_bytes);
}

std::string CpuBackend::description() const { return fmt::format("cpu ({}, {})", kernels_.name, counted(threads_, "thread")); }

std::byte* CpuBackend::shared_scratch(Index bytes) {
  if (bytes > shared_scratch_.bytes()) shared_scratch_ = Buffer(bytes);
  return shared_scratch_.data();
}

void CpuBackend::reserve_thread_scratch(Index bytes) {
  for (Buffer& buffer : thread_scratch_)
    if (bytes > buffer.bytes()) buffer = Buffer(bytes);
}

int element(DType dtype) {
  if (dtype == DType::kF32) return 0;
  if (dtype == DType::kBF16) return 1;
  throw UnsupportedError(fmt::format("[cpu] computes on f32 and bf16, not on {}", dtype_name(dtype)));
}

}  // namespace cpu
}  // namespace optimus
