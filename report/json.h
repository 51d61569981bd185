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

// Writes a result for both kinds of readers: the JSON into a file where one is named, and the table
// to standard output, unless the JSON goes there ("-"). A file that cannot be written costs no
// table.
Result<void> write_json_and_table(const std::string& json_path, const boost::json::object& json,
                                  const std::string& table);

// {"cpu", "cores", "memory_bytes", "kernel"} of this machine.
boost::json::object hardware_json();

}  // namespace farpage
