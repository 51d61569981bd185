#pragma once

#include <CLI/CLI.hpp>

namespace farpage {

// `farpage bench client`: the client library, as an engine uses it.
void add_client_bench(CLI::App& bench, int& exit_code);

}  // namespace farpage
