#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "transport/traffic.h"

namespace farpage {

// Traffic of each path of a client: for a machine, and as rows for people.
boost::json::array paths_json(const std::vector<PathUse>& paths);
std::vector<std::pair<std::string, std::string>> path_rows(const std::vector<PathUse>& paths);

}  // namespace farpage
