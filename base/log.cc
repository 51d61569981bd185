#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/stderr.h"

namespace farpage {
namespace {

// Instead of spdlog's own, which waits for a reader that does not read.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  StderrSink() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    std::string line(buffer.data(), buffer.size());
    if (is_terminal_) {
      constexpr const char* kYellow = "\x1b[33m\x1b[1m";
      constexpr const char* kPlain = "\x1b[m";
      line.insert(message.color_range_end, kPlain).insert(message.color_range_start, kYellow);
    }
    write_stderr(line);
  }
  void flush_() override {}

  const bool is_terminal_;
};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("farpage", std::make_shared<StderrSink>());
    made->set_error_handler([](const std::string&) {});  // there is nowhere to tell it
    return made;
  }();
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

bool WarningLimiter::is_due() {
  const uint64_t now = boottime_clock().now_ns();
  if (now < next_ns_) {
    ++left_out_;
    return false;
  }
  next_ns_ = now + pause_ns_;
  return true;
}

void WarningLimiter::write(const std::string& message) {
  log_warning(left_out_ == 0 ? message : fmt::format("{} (and {} like it)", message, left_out_));
  left_out_ = 0;
}

}  // namespace farpage
