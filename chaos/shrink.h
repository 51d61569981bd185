#pragma once

#include <cstddef>
#include <functional>

#include "chaos/plan.h"

namespace farpage::chaos {

// The shortest plan found that still fails: of which no single action can be left out (delta
// debugging, Zeller and Hildebrandt 2002). `fails` holds for `plan`, and is asked at most
// `most_runs` times.
Plan shrink(const Plan& plan, const std::function<bool(const Plan&)>& fails, size_t most_runs);

}  // namespace farpage::chaos
