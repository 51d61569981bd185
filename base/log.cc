#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace farpage {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = spdlog::stderr_color_mt("farpage");
  return *instance;
}

}  // namespace

void log_warning(const std::string& message) {
  logger().warn(message);
}

}  // namespace farpage
