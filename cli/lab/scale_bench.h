#pragma once

#include <string>

#include "etcd/options.h"
#include "lab/scale/scale_bench.h"

namespace farpage {

// Options of `farpage-lab bench scale`.
struct ScaleArguments {
  ScaleOptions bench;
  etcd::EtcdOptions etcd;
  std::string json;
};

// Returns the exit status.
int run_bench_scale(ScaleArguments arguments);

}  // namespace farpage
