#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "bench/fetch/fetch_bench.h"
#include "bench/index_bench.h"
#include "transport/fabric.h"
#include "transport/traffic.h"

namespace farpage {

struct FetchReport {
  const FetchBenchOptions& options;
  const FetchBenchResult& result;
  const Capabilities& capabilities;
  const std::vector<PathUse>& paths;
  std::string version;
  bool verify = true;
  bool own_node = true;
};

boost::json::object fetch_json(const FetchReport& report);
std::string fetch_table(const FetchReport& report);

boost::json::object index_json(const IndexBenchResult& result, const std::string& version);
std::string index_table(const IndexBenchResult& result);

}  // namespace farpage
