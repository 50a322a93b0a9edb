#include "optimus/backend/cpu/isa.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "optimus/base/error.hpp"

namespace optimus::cpu {

namespace baseline {
KernelTable kernel_table();
}
#ifdef OPTIMUS_X86_KERNELS
namespace avx2 {
KernelTable kernel_table();
}
namespace avx512 {
KernelTable kernel_table();
}
namespace avx512_bf16 {
KernelTable kernel_table();
}
#endif

namespace {

Isa processor_isa() {
#ifdef OPTIMUS_X86_KERNELS
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  if (has_avx512 && __builtin_cpu_supports("avx512bf16")) return Isa::kAvx512Bf16;
  if (has_avx512) return Isa::kAvx512;
  if (has_avx2) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

/// oneDNN's names, in its order, and the most of ours that each allows.
constexpr std::array kLimits = {
    std::pair{std::string_view("SSE41"), Isa::kBaseline},
    std::pair{std::string_view("AVX"), Isa::kBaseline},
    std::pair{std::string_view("AVX2"), Isa::kAvx2},
    std::pair{std::string_view("AVX2_VNNI"), Isa::kAvx2},
    std::pair{std::string_view("AVX2_VNNI_2"), Isa::kAvx2},
    std::pair{std::string_view("AVX512_CORE"), Isa::kAvx512},
    std::pair{std::string_view("AVX512_CORE_VNNI"), Isa::kAvx512},
    std::pair{std::string_view("AVX512_CORE_BF16"), Isa::kAvx512Bf16},
    std::pair{std::string_view("AVX512_CORE_FP16"), Isa::kAvx512Bf16},
    std::pair{std::string_view("AVX10_1_512"), Isa::kAvx512Bf16},
    std::pair{std::string_view("AVX512_CORE_AMX"), Isa::kAvx512Bf16},
    std::pair{std::string_view("AVX512_CORE_AMX_FP16"), Isa::kAvx512Bf16},
    std::pair{std::string_view("AVX10_1_512_AMX"), Isa::kAvx512Bf16},
    std::pair{std::string_view("AVX10_1_512_AMX_FP16"), Isa::kAvx512Bf16},
    std::pair{std::string_view("ALL"), Isa::kAvx512Bf16},
    std::pair{std::string_view("DEFAULT"), Isa::kAvx512Bf16},
    std::pair{std::string_view(""), Isa::kAvx512Bf16},
};

}  // namespace

Isa detect_isa(const char* limit) {
  std::string name(limit);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  const auto* found = std::find_if(kLimits.begin(), kLimits.end(), [&](const auto& entry) { return entry.first == name; });
  if (found == kLimits.end())
    throw ConfigError("[cpu] ONEDNN_MAX_CPU_ISA is \"" + std::string(limit) +
                      "\", which names no instruction set; use AVX2, AVX512_CORE, AVX512_CORE_BF16 or ALL, or unset it");
  return std::min(processor_isa(), found->second);
}

Isa detect_isa() {
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  return detect_isa(limit == nullptr ? "" : limit);
}

const KernelTable& kernels_of(Isa isa) {
#ifdef OPTIMUS_X86_KERNELS
  static const KernelTable tables[] = {baseline::kernel_table(), avx2::kernel_table(), avx512::kernel_table(), avx512_bf16::kernel_table()};
#else
  static const KernelTable tables[] = {baseline::kernel_table()};
#endif
  return tables[static_cast<int>(isa)];
}

}  // namespace optimus::cpu
