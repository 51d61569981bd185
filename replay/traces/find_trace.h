#pragma once

#include <string>

namespace farpage {

struct FoundTrace {
  std::string path;         // empty: none was found
  std::string explanation;  // where it was found, or where it was looked for: for people
};

// The conversation trace in the folder that FARPAGE_TRACES names, else in traces/ of the current
// folder.
FoundTrace find_trace();

}  // namespace farpage
