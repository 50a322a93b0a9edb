#pragma once
// Replaces malloc and its relatives, so that a program can count what is asked of them. Included by one source of a program, which defines count_allocation().

#include <cerrno>
#include <cstddef>

/// Told the bytes of every request. Must not allocate.
void count_allocation(std::size_t bytes);

// glibc's own entry points, under the names that stay when malloc is replaced.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t n, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) { return count_allocation(bytes), __libc_malloc(bytes); }
void* calloc(std::size_t n, std::size_t bytes) { return count_allocation(n * bytes), __libc_calloc(n, bytes); }
void* realloc(void* old, std::size_t bytes) { return count_allocation(bytes), __libc_realloc(old, bytes); }
void* memalign(std::size_t alignment, std::size_t bytes) { return count_allocation(bytes), __libc_memalign(alignment, bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return count_allocation(bytes), __libc_memalign(alignment, bytes); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  count_allocation(bytes);
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}
