#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/status.h"
#include "net/listening_socket.h"

namespace farpage {

class HttpServer;

// Shows metrics to Prometheus: http://ADDRESS/metrics.
class MetricsServer {
 public:
  // `describe` is called at each look, on a thread of the server's, and not after the destructor
  // has returned.
  static Result<std::unique_ptr<MetricsServer>> start(ListeningSocket socket,
                                                      std::function<void(MetricVisitor&)> describe);
  ~MetricsServer();

  const std::string& url() const { return url_; }

 private:
  MetricsServer(std::unique_ptr<HttpServer> http, std::string url);
  std::unique_ptr<HttpServer> http_;
  std::string url_;
};

}  // namespace farpage
