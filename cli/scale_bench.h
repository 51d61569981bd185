#pragma once

#include <string>

#include "bench/scale/scale_bench.h"
#include "etcd/options.h"

namespace farpage {

// What `farpage bench scale` is told.
struct ScaleArguments {
  ScaleOptions bench;
  etcd::EtcdOptions etcd;
  std::string json;
};

// Returns the exit status.
int run_bench_scale(ScaleArguments arguments);

}  // namespace farpage
