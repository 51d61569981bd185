#include "client/embedded/embedded_node.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "backends/backends.h"
#include "client/embedded/user_folder.h"
#include "node/settings/options.h"

namespace farpage {
namespace {

// The same whatever the pool, so that clients need not know which process's options the node has.
constexpr uint64_t kStagingBytes = 16 * kMiB;
constexpr uint64_t kClients = 64;  // that can put at one time

uint64_t staging_bytes(const EmbeddedOptions& options) {
  return std::max(kStagingBytes, 2 * options.page_bytes);
}

bool is_socket(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

NodeOptions node_options(const EmbeddedOptions& options, const std::string& backend,
                         const std::string& path, const std::string& state) {
  NodeOptions node;
  node.listen = path;
  node.backend = backend;
  node.state = state;
  node.pool_bytes = options.pool_bytes;
  node.page_bytes = options.page_bytes;
  node.max_staging_bytes = staging_bytes(options);
  node.staging_budget_bytes = kClients * node.max_staging_bytes;
  return node;
}

}  // namespace

Result<std::unique_ptr<EmbeddedNode>> EmbeddedNode::start(const EmbeddedOptions& options,
                                                          const std::string& backend) {
  auto made = std::unique_ptr<EmbeddedNode>(new EmbeddedNode);
  made->max_staging_bytes_ = staging_bytes(options);
  Result<std::string> folder = std::string();
  if (options.name.empty()) {
    auto own = PrivateFolder::create();
    if (!own) return tl::unexpected(own.error());
    folder = own->path();
    made->folder_.emplace(std::move(*own));
  } else {
    folder = make_user_folder();
  }
  if (!folder) return tl::unexpected(folder.error());
  const std::string stem = *folder + "/" + (options.name.empty() ? "node" : options.name);
  made->path_ = stem + ".sock";
  auto socket = BoundUnixSocket::bind(made->path_);
  const bool has_another = !socket && socket.error().code == Code::kExists;
  if (has_another && !options.name.empty() && is_socket(made->path_)) return made;
  if (!socket) return tl::unexpected(socket.error());
  auto serves = made->serve(options, backend, stem + ".state", std::move(*socket));
  if (!serves) return tl::unexpected(serves.error());
  return made;
}

Result<void> EmbeddedNode::serve(const EmbeddedOptions& options, const std::string& backend,
                                 const std::string& state, BoundUnixSocket socket) {
  const NodeOptions node = node_options(options, backend, path_, state);
  if (auto valid = node.validate(); !valid) return valid;
  const auto chosen = choose_backend(backend, {path_, "", 0});
  if (!chosen) return tl::unexpected(chosen.error());
  const BackendOptions backends;
  const ClientCredentials credentials;
  auto fabric = (*chosen)->make({backends, credentials, node.io_threads});
  if (!fabric) return tl::unexpected(fabric.error());
  fabric_ = std::move(fabric->fabric);
  runtime_ = std::make_unique<AsioRuntime>();
  Result<std::unique_ptr<NodeService>> service;
  runtime_->run([&] { service = make_memory_node(node, *runtime_, *fabric_); });
  if (!service) return tl::unexpected(service.error());
  node_ = std::move(*service);
  server_ = serve_unix(*runtime_, std::move(socket), *node_);
  return {};
}

std::optional<Error> EmbeddedNode::shortage() const {
  return runtime_ == nullptr ? std::nullopt : runtime_->shortage();
}

EmbeddedNode::~EmbeddedNode() {
  server_.reset();
  if (node_ != nullptr) runtime_->run([this] { node_.reset(); });
}

}  // namespace farpage
