#include "optimus/base/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace optimus {

std::uint64_t xxh64(std::span<const std::byte> bytes) { return XXH64(bytes.data(), bytes.size(), 0); }
std::uint64_t xxh64(std::string_view text) { return XXH64(text.data(), text.size(), 0); }

struct Xxh64::State {
  State() : xxh(XXH64_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH64_reset(xxh, 0);
  }
  ~State() { XXH64_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH64_state_t* xxh;
};

Xxh64::Xxh64() : state_(std::make_unique<State>()) {}
Xxh64::~Xxh64() = default;
Xxh64::Xxh64(Xxh64&&) noexcept = default;
Xxh64& Xxh64::operator=(Xxh64&&) noexcept = default;

void Xxh64::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH64_update(state_->xxh, bytes.data(), bytes.size());
}

std::uint64_t Xxh64::digest() const { return XXH64_digest(state_->xxh); }

std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace optimus
