#pragma once

namespace CLI {
class App;
}

namespace farpage {

// Each adds its subcommand, which leaves its exit code in `exit_code` when it has run. Both outlive
// the parsing.
void add_policies_command(CLI::App& app, int& exit_code);
void add_prefetch_command(CLI::App& app, int& exit_code);
void add_live_command(CLI::App& app, int& exit_code);
void add_kvhl_command(CLI::App& app, int& exit_code);
void add_replay_command(CLI::App& app, int& exit_code);
void add_analyse_command(CLI::App& app, int& exit_code);
void add_generate_command(CLI::App& app, int& exit_code);
void add_chaos_command(CLI::App& app, int& exit_code);
void add_lab_bench_command(CLI::App& app, int& exit_code);

}  // namespace farpage
