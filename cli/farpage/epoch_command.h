#pragma once

#include <CLI/CLI.hpp>

namespace farpage {

// `farpage bench epoch`: what a node answers while it enters an epoch.
void add_epoch_bench(CLI::App& bench, int& exit_code);

}  // namespace farpage
