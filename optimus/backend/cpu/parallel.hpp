#pragma once
// Loops over ranges by this backend's own number of threads. Bodies must not throw.

#include <omp.h>

#include <algorithm>

#include "optimus/base/index.hpp"

namespace optimus::cpu {

/// body(begin, end) on disjoint ranges that cover [0, count): at most `threads`, each of at least `grain` (but for the last).
template <class Body> void parallel_ranges(int threads, Index count, Index grain, Body&& body) {
  const auto wanted = static_cast<int>(std::min<Index>(threads, ceil_div(count, std::max<Index>(grain, 1))));
  if (wanted <= 1) {
    if (count > 0) body(Index{0}, count);
    return;
  }
#pragma omp parallel num_threads(wanted)
  {
    const Index team = omp_get_num_threads(), thread = omp_get_thread_num();
    // Whole cache lines to each thread when an item is one float.
    const Index share = round_up(ceil_div(count, team), count >= 64 * team ? 16 : 1);
    const Index begin = std::min(count, thread * share), end = std::min(count, begin + share);
    if (begin < end) body(begin, end);
  }
}

/// body(item, thread) for every item of [0, count), next item to the next free thread; thread in [0, threads).
template <class Body> void parallel_items(int threads, Index count, Body&& body) {
  const auto wanted = static_cast<int>(std::min<Index>(threads, count));
  if (wanted <= 1) {
    for (Index i = 0; i < count; ++i) body(i, 0);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(wanted)
  for (Index i = 0; i < count; ++i) body(i, omp_get_thread_num());
}

}  // namespace optimus::cpu
