#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace farpage {

// Parses the command line and runs the command that it names. `add_commands` adds them: each leaves
// its exit code in the integer, which outlives the parsing. Returns the exit code.
int run_program(const std::string& name, const std::string& description,
                const std::function<void(CLI::App&, int&)>& add_commands, int argc, char** argv);

}  // namespace farpage
