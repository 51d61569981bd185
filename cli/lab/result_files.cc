#include "cli/lab/result_files.h"

#include <fmt/format.h>

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
              "--json - and --csv - would both go to standard output: give one of them a file");
}

Result<void> ResultFiles::write(Results results) const {
  if (!csv.empty()) {
    if (auto done = write_text(csv, results.csv); !done) return done;
  }
  if (!json.empty()) {
    if (auto done = write_text(json, results.json); !done) return done;
  }
  if (!report.empty()) {
    if (auto done = results.report(report); !done) return done;
    results.table += fmt::format("\nreport: {}/report.html\n", report);
  }
  if (json == "-" || csv == "-") return {};
  return write_text("-", results.table);
}

}  // namespace farpage
