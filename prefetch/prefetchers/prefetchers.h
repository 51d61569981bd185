#pragma once

#include "prefetch/parameters.h"

namespace farpage::prefetch {

// One file each, of the same name.
PrefetcherInfo hot_pages();
PrefetcherInfo learned();
PrefetcherInfo majority();
PrefetcherInfo markov();
PrefetcherInfo milestone();
PrefetcherInfo none();
PrefetcherInfo oracle();
PrefetcherInfo previous_selection();
PrefetcherInfo random_seen();
PrefetcherInfo used_last();

}  // namespace farpage::prefetch
