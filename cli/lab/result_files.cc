#include "cli/lab/result_files.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "cli/options.h"
#include "report/json.h"

namespace farpage {

void ResultFiles::add_to(CLI::App& command) {
  add_json(command, json);
  command.add_option("--csv", csv, "Writes the runs as a table; - for standard output")
      ->type_name("FILE");
  command.add_option("--report", report, "Writes report.json and report.html into this folder")
      ->type_name("FOLDER");
}

Result<void> ResultFiles::validate() const {
  if (json != "-" || csv != "-") return {};
  return fail(Code::kInvalid,
              "--json - and --csv - both write to standard output: give one of them a file");
}

Result<void> ResultFiles::write(Results results) const {
  Result<void> all;  // the first that fails keeps none of the others from being written
  const auto note = [&all](Result<void> written) {
    if (all) all = std::move(written);
  };
  if (!csv.empty()) note(write_text(csv, results.csv));
  if (!json.empty()) note(write_text(json, results.json));
  if (!report.empty()) {
    const Result<void> written = results.report(report);
    if (written) results.table += fmt::format("\nreport: {}/report.html\n", report);
    note(written);
  }
  if (json != "-" && csv != "-") note(write_text("-", results.table));
  return all;
}

}  // namespace farpage
