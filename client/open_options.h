#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/options.h"
#include "base/config/config.h"
#include "base/status.h"
#include "client/embedded/embedded_options.h"
#include "client/fleet/cluster_options.h"
#include "client/gpu/gpu_options.h"
#include "client/runner/ahead_options.h"
#include "client/runner/runner_options.h"
#include "etcd/options.h"
#include "net/security_options.h"
#include "tier/request/client_options.h"

namespace farpage {

// The memory nodes of a client, and how it uses them. Exactly one of `node`, `cluster`, `etcd` and
// `embedded` says which nodes; the keys stand in docs/client.md. Members have initializers so that
// a designated initializer may leave them out without a warning.
struct OpenOptions {
  std::string node = {};     // address of one that serves alone: /path/of.sock or tcp://HOST:PORT
  std::string backend = {};  // transport of the pages; empty: by the node's address
  bool embedded = false;
  EmbeddedOptions embedded_node = {};
  ClusterOptions cluster = {};
  etcd::EtcdOptions etcd = {};
  BackendOptions backends = {};
  ClientSecurity security = {};
  ClientOptions client = {};
  RunnerOptions lanes = {};
  AheadOptions ahead = {};
  GpuOptions gpu = {};

  // `overrides`: "table.key=value", which win over the file. An empty path: no file.
  static Result<OpenOptions> from_file(const std::string& path,
                                       std::span<const std::string> overrides = {});
  static Result<OpenOptions> from_text(std::string_view toml,
                                       std::span<const std::string> overrides = {});

  // Takes this client's tables out of `config`, and leaves config.finish() to the caller.
  Result<void> read(Config& config);
  // Everything that can be known without a node: the error names the key.
  Result<void> validate() const;
  // The same, whichever nodes there are.
  Result<void> validate_use() const;

 private:
  Result<void> validate_nodes() const;
};
// The table [client].
std::vector<ConfigField> fields(OpenOptions& options);

}  // namespace farpage
