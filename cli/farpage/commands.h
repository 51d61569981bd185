#pragma once

namespace CLI {
class App;
}

namespace farpage {

// Each adds its subcommand, which leaves its exit code in `exit_code` when it has run. Both outlive
// the parsing.
void add_node_command(CLI::App& app, int& exit_code);
void add_hold_command(CLI::App& app, int& exit_code);
void add_status_command(CLI::App& app, int& exit_code);
void add_drain_command(CLI::App& app, int& exit_code);
void add_fleet_command(CLI::App& app, int& exit_code);
void add_flush_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace farpage
