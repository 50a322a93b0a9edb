#include "optimus/launch/self_test.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>
#include <thread>
#include <vector>

#include "optimus/base/hash.hpp"
#include "optimus/base/random.hpp"
#include "optimus/base/timer.hpp"

// The compiler makes a version of a loop for each instruction set, so that the widest units are the ones tested; the order of every sum is fixed and contraction
// is off, so all versions agree to the last bit. Sanitizers cannot live with functions that are chosen by the loader.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OPTIMUS_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OPTIMUS_FOR_EACH_CPU
#endif

namespace optimus::launch {
namespace {

constexpr std::size_t kSize = 160;  // three matrices of doubles: 600 kB a thread, more than a first-level cache

/// c = a b, all [n, n], as products and sums.
OPTIMUS_FOR_EACH_CPU void multiply(const float* a, const float* b, float* c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  }
}

/// The same in double, with one rounding for product and sum.
OPTIMUS_FOR_EACH_CPU void multiply_fused(const double* a, const double* b, double* c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] = std::fma(a[i * n + k], b[k * n + j], c[i * n + j]);
  }
}

template <class T> std::vector<T> random_matrix(const char* name) {
  const RandomStream stream(1, "self-test", name);
  std::vector<T> values(kSize * kSize);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(stream.uniform(static_cast<Index>(i)) - 0.5);
  return values;
}

template <class T> void add_to(Xxh64& hash, const std::vector<T>& values) { hash.update(std::as_bytes(std::span(values))); }

}  // namespace

std::uint64_t self_test_round() {
  Xxh64 hash;
  const auto a = random_matrix<float>("a"), b = random_matrix<float>("b");
  std::vector<float> c(kSize * kSize);
  multiply(a.data(), b.data(), c.data(), kSize);
  add_to(hash, c);
  const auto wide_a = random_matrix<double>("a"), wide_b = random_matrix<double>("b");
  std::vector<double> wide_c(kSize * kSize);
  multiply_fused(wide_a.data(), wide_b.data(), wide_c.data(), kSize);
  add_to(hash, wide_c);
  return hash.digest();
}

SelfTestResult run_self_test(double seconds, Index threads, std::uint64_t expected) {
  std::atomic<Index> rounds = 0, wrong = 0;
  const Timer timer;
  const auto work = [&] {
    do {
      if (self_test_round() != expected) ++wrong;
      ++rounds;
    } while (timer.seconds() < seconds);
  };
  std::vector<std::thread> workers;
  for (Index i = 0; i < std::max<Index>(1, threads); ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  return {.rounds = rounds, .wrong_rounds = wrong, .threads = static_cast<Index>(workers.size())};
}

}  // namespace optimus::launch
