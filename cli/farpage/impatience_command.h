#pragma once

#include <CLI/CLI.hpp>

namespace farpage {

// `farpage bench urgent` and `stale`: what some fetches cost the others.
void add_urgent_bench(CLI::App& bench, int& exit_code);
void add_stale_bench(CLI::App& bench, int& exit_code);

}  // namespace farpage
