#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "base/stderr.h"
#include "cli/exit_code.h"
#include "cli/standard_streams.h"
#include "cli/version.h"
#include "report/json.h"

namespace farpage {
namespace {

// The error, and where to read on.
std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* used = app;
  while (!used->get_subcommands().empty()) used = used->get_subcommands().front();
  std::string name = used->get_name();
  for (const CLI::App* parent = used->get_parent(); parent != nullptr;
       parent = parent->get_parent()) {
    name.insert(0, parent->get_name() + " ");
  }
  return fmt::format("{}: {}\nTry '{} --help'.\n", app->get_name(), error.what(), name);
}

// Help and version are results, and go to standard output.
int end_parsing(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream asked;
  std::ostringstream wrong;
  const bool is_done = app.exit(error, asked, wrong) == 0;
  write_stderr(wrong.str());
  if (!is_done) return kExitUsage;
  const auto written = write_text("-", asked.str());
  return written ? kExitDone : report_error(written.error());
}

}  // namespace

int run_program(const std::string& name, const std::string& description,
                const std::function<void(CLI::App&, int&)>& add_commands, int argc, char** argv) {
  make_streams_safe();
  int exit_code = kExitDone;
  CLI::App app(description, name);
  app.set_version_flag("--version", fmt::format("{} {}", name, version()));
  app.require_subcommand(1);
  app.failure_message(usage_error);
  add_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_parsing(app, error);
  }
  return exit_code;
}

}  // namespace farpage
