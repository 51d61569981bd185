#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "base/stderr.h"
#include "bench/json.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/standard_streams.h"
#include "cli/version.h"

namespace {

// What went wrong, and where to read on.
std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* used = app;
  while (!used->get_subcommands().empty()) used = used->get_subcommands().front();
  std::string name = used->get_name();
  for (const CLI::App* parent = used->get_parent(); parent != nullptr;
       parent = parent->get_parent()) {
    name.insert(0, parent->get_name() + " ");
  }
  return fmt::format("farpage: {}\nTry '{} --help'.\n", error.what(), name);
}

// Help and version are results, and go to standard output.
int end_parsing(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream asked;
  std::ostringstream wrong;
  const bool is_done = app.exit(error, asked, wrong) == 0;
  farpage::write_stderr(wrong.str());
  if (!is_done) return farpage::kExitUsage;
  const auto written = farpage::write_text("-", asked.str());
  return written ? farpage::kExitDone : farpage::report_error(written.error());
}

}  // namespace

int main(int argc, char** argv) {
  farpage::make_streams_safe();
  int exit_code = farpage::kExitDone;
  CLI::App app("Moves KV-cache pages between a serving engine and memory on other machines.",
               "farpage");
  app.set_version_flag("--version", fmt::format("farpage {}", farpage::version()));
  app.require_subcommand(1);
  app.failure_message(usage_error);
  farpage::add_node_command(app, exit_code);
  farpage::add_replay_command(app, exit_code);
  farpage::add_analyse_command(app, exit_code);
  farpage::add_generate_command(app, exit_code);
  farpage::add_bench_command(app, exit_code);
  farpage::add_chaos_command(app, exit_code);
  farpage::add_hold_command(app, exit_code);
  farpage::add_status_command(app, exit_code);
  farpage::add_drain_command(app, exit_code);
  farpage::add_doctor_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_parsing(app, error);
  }
  return exit_code;
}
