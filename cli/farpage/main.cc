#include "cli/farpage/commands.h"
#include "cli/program.h"

namespace {

void add_commands(CLI::App& app, int& exit_code) {
  farpage::add_node_command(app, exit_code);
  farpage::add_hold_command(app, exit_code);
  farpage::add_status_command(app, exit_code);
  farpage::add_drain_command(app, exit_code);
  farpage::add_fleet_command(app, exit_code);
  farpage::add_flush_command(app, exit_code);
  farpage::add_doctor_command(app, exit_code);
  farpage::add_bench_command(app, exit_code);
}

}  // namespace

int main(int argc, char** argv) {
  return farpage::run_program(
      "farpage", "Moves KV-cache pages between a serving engine and memory on other machines.",
      add_commands, argc, argv);
}
