#define PCRE2_CODE_UNIT_WIDTH 8
#include "optimus/data/pattern.hpp"

#include <pcre2.h>

#include <array>
#include <cstdint>

#include "optimus/base/check.hpp"
#include "optimus/base/error.hpp"

namespace optimus {
namespace {

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Pattern::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  pcre2_code* code;
};

struct Pattern::State::Impl {
  Impl() {
    // Long words may need more than the 32 KiB of machine stack that compiled patterns use by default.
    constexpr PCRE2_SIZE kFirstStack = 64 << 10, kMaxStack = 64 << 20;
    data = pcre2_match_data_create(1, nullptr);
    context = pcre2_match_context_create(nullptr);
    stack = pcre2_jit_stack_create(kFirstStack, kMaxStack, nullptr);
    OPTIMUS_CHECK(data != nullptr && context != nullptr, "PCRE2 could not allocate its match state");
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_match_limit(context, UINT32_MAX);  // texts are data, not an attack: a long run of spaces must not end a run of weeks
  }
  ~Impl() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    if (stack != nullptr) pcre2_jit_stack_free(stack);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
};

Pattern::State::State() : impl_(std::make_unique<Impl>()) {}
Pattern::State::~State() = default;
Pattern::State::State(State&&) noexcept = default;

Pattern::Pattern(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  OPTIMUS_CHECK(context != nullptr, "PCRE2 could not allocate its compile context");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code == nullptr)
    throw DataError("the regular expression cannot be compiled: " + message_of(error) + " at byte " + std::to_string(offset) + " of " + pattern);
  code_ = std::make_unique<Code>(code);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is no compiler for this machine, pcre2_match interprets: the same matches, slower
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

bool Pattern::find(std::string_view text, std::size_t start, State& state, Match& match) const {
  State::Impl& s = *state.impl_;
  const int result = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start, PCRE2_NO_UTF_CHECK, s.data, s.context);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) throw DataError("[tokenizer] the regular expression failed at byte " + std::to_string(start) + " of a text: " + message_of(result));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(s.data);
  match = {range[0], range[1]};
  return true;
}

}  // namespace optimus
