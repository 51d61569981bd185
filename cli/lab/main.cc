#include "cli/lab/commands.h"
#include "cli/program.h"

namespace {

void add_commands(CLI::App& app, int& exit_code) {
  farpage::add_replay_command(app, exit_code);
  farpage::add_policies_command(app, exit_code);
  farpage::add_prefetch_command(app, exit_code);
  farpage::add_live_command(app, exit_code);
  farpage::add_analyse_command(app, exit_code);
  farpage::add_generate_command(app, exit_code);
  farpage::add_kvhl_command(app, exit_code);
  farpage::add_chaos_command(app, exit_code);
  farpage::add_lab_bench_command(app, exit_code);
}

}  // namespace

int main(int argc, char** argv) {
  return farpage::run_program("farpage-lab",
                              "Replays traces, simulates policies, and attacks fleets of farpage.",
                              add_commands, argc, argv);
}
