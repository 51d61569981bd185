#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/exit_code.h"
#include "cli/lab/commands.h"
#include "lab/kvhl/sweep.h"
#include "report/json.h"

namespace farpage {
namespace {

struct KvhlArguments {
  std::string input;  // the folder of its workloads
  std::string csv = "-";
};

int run(const KvhlArguments& arguments) {
  const auto table = kvhl::sweep(arguments.input, [](size_t, size_t) {});
  if (!table) return report_error(table.error());
  const auto written = write_text(arguments.csv, *table);
  return written ? kExitDone : report_error(written.error());
}

}  // namespace

void add_kvhl_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "kvhl", "Runs KV-Hierarchy-Lab's scenarios on its workloads, with its results");
  auto arguments = std::make_shared<KvhlArguments>();
  command
      ->add_option("--input", arguments->input,
                   "Its workloads: NAME.trace.csv and NAME.QUANTISATION.pages.csv")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--csv", arguments->csv, "Writes the runs as a table; - for standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace farpage
