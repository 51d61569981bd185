#pragma once

#include <CLI/CLI.hpp>

namespace farpage {

// `farpage bench urgent`, `stale` and `turns`: what some fetches, and a path that ends, cost the
// others.
void add_turn_bench(CLI::App& bench, int& exit_code);
void add_urgent_bench(CLI::App& bench, int& exit_code);
void add_stale_bench(CLI::App& bench, int& exit_code);

}  // namespace farpage
