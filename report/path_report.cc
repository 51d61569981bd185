#include "report/path_report.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/units.h"

namespace farpage {

boost::json::array paths_json(const std::vector<PathUse>& paths) {
  boost::json::array array;
  for (const PathUse& path : paths) {
    boost::json::value link;  // null: the device does not say
    if (path.link_bits_per_s > 0) link = path.link_bits_per_s;
    array.push_back({{"path", path.path},
                     {"link_bits_per_s", std::move(link)},
                     {"connections", path.connections},
                     {"connected", path.connected},
                     {"failed", path.failed},
                     {"broken", path.broken},
                     {"reads", path.reads},
                     {"read_bytes", path.read_bytes},
                     {"writes", path.writes},
                     {"write_bytes", path.write_bytes}});
  }
  return array;
}

std::vector<std::pair<std::string, std::string>> path_rows(const std::vector<PathUse>& paths) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const PathUse& path : paths) {
    const std::string link =
        path.link_bits_per_s == 0
            ? ""
            : fmt::format("{:g} Gbit/s; ", static_cast<double>(path.link_bits_per_s) * 1e-9);
    rows.emplace_back(
        "  " + path.path,
        fmt::format("{}{} read in {}, {} written in {}; {} connections made, {} failed, {} broken",
                    link, format_bytes(path.read_bytes), path.reads, format_bytes(path.write_bytes),
                    path.writes, path.connected, path.failed, path.broken));
  }
  return rows;
}

}  // namespace farpage
