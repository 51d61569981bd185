#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "base/status.h"

namespace farpage {

// Indented, with a newline at the end; fractions have as many digits as a person wants to see.
std::string format_json(const boost::json::value& value);
// The same on one line.
std::string format_json_line(const boost::json::value& value);

// Writes a whole file, or to standard output for "-".
Result<void> write_text(const std::string& path, const std::string& text);

// {"cpu", "cores", "memory_bytes", "kernel"} of this machine.
boost::json::object hardware_json();

}  // namespace farpage
