#include "report/json.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

namespace farpage {
namespace {

// The items of a list stand on one line.
enum class Layout : uint8_t { kLines, kOneLine };

void append(const boost::json::value& value, Layout layout, const std::string& indent,
            std::string& text) {
  if (const auto* object = value.if_object(); object != nullptr && !object->empty()) {
    const bool lines = layout == Layout::kLines;
    const std::string inner = lines ? indent + "  " : "";
    const char* separator = lines ? "{\n" : "{";
    for (const auto& [key, member] : *object) {
      text += fmt::format("{}{}{}: ", separator, inner, boost::json::serialize(key));
      append(member, layout, inner, text);
      separator = lines ? ",\n" : ", ";
    }
    text += lines ? fmt::format("\n{}}}", indent) : "}";
  } else if (const double* number = value.if_double()) {
    text += std::isfinite(*number) ? fmt::format("{:.7g}", *number) : "null";
  } else if (const auto* array = value.if_array()) {
    const char* separator = "";
    text += '[';
    for (const boost::json::value& element : *array) {
      text += separator;
      append(element, Layout::kOneLine, "", text);
      separator = ", ";
    }
    text += ']';
  } else {
    text += boost::json::serialize(value);
  }
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "unknown";
}

}  // namespace

std::string format_json(const boost::json::value& value) {
  std::string text;
  append(value, Layout::kLines, "", text);
  return text + '\n';
}

std::string format_json_line(const boost::json::value& value) {
  std::string text;
  append(value, Layout::kOneLine, "", text);
  return text + '\n';
}

Result<void> write_text(const std::string& path, const std::string& text) {
  const bool is_output = path == "-";
  const std::string what = is_output ? "cannot write to standard output" : "cannot write " + path;
  std::FILE* file = is_output ? stdout : std::fopen(path.c_str(), "we");
  if (file == nullptr) return fail_errno(errno, what);
  errno = 0;
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = (is_output ? std::fflush(file) : std::fclose(file)) == 0 && written;
  if (!written) return fail_errno(errno, what);
  return {};
}

Result<void> write_json_and_table(const std::string& json_path, const boost::json::object& json,
                                  const std::string& table) {
  Result<void> all;
  if (!json_path.empty()) all = write_text(json_path, format_json(json));
  if (json_path == "-") return all;
  const Result<void> told = write_text("-", table);
  return all ? told : all;
}

boost::json::object hardware_json() {
  utsname system = {};
  ::uname(&system);
  const auto memory_bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                            static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return {{"cpu", cpu_model()},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", memory_bytes},
          {"kernel", system.release}};
}

}  // namespace farpage
