#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/clock.h"

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

void log_info(const std::string& message) {
  logger().info(message);
}

void silence_warnings() {
  logger().set_level(spdlog::level::off);
}

void WarningLimiter::warn(const std::string& message) {
  const uint64_t now = boottime_clock().now_ns();
  if (now < next_ns_) {
    ++left_out_;
    return;
  }
  next_ns_ = now + kSecond;
  log_warning(left_out_ == 0 ? message : fmt::format("{} (and {} like it)", message, left_out_));
  left_out_ = 0;
}

}  // namespace farpage
