#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace CLI {
class App;
}

namespace farpage {

// The figures of runs: as a table for a person, and in the forms that files take.
struct Results {
  std::string csv;
  std::string json;
  std::string table;
  std::function<Result<void>(const std::string& folder)> report;
};

// Where figures of runs go, besides a table on standard output.
struct ResultFiles {
  std::string json;    // - for standard output, in the table's place
  std::string csv;     // the same
  std::string report;  // a folder

  void add_to(CLI::App& command);
  // Fails if two of them would go to standard output.
  Result<void> validate() const;
  Result<void> write(Results results) const;
};

}  // namespace farpage
