#include "report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/stderr.h"

namespace farpage {
namespace {

constexpr uint64_t kRedrawNs = 100 * kMillisecond;
constexpr uint64_t kLineNs = 2 * kSecond;
constexpr uint64_t kBarCells = 30;

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(std::string label, std::string unit, uint64_t total)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(std::max<uint64_t>(total, 1)),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      start_ns_(boottime_clock().now_ns()),
      next_ns_(start_ns_ + (is_terminal_ ? kRedrawNs : kLineNs)) {}

Progress::~Progress() {
  if (!is_terminal_) return;
  draw(done_, static_cast<double>(boottime_clock().now_ns() - start_ns_) * 1e-9);
  write_stderr("\n");
}

void Progress::update(uint64_t done) {
  done_ = done;
  const uint64_t now = boottime_clock().now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + (is_terminal_ ? kRedrawNs : kLineNs);
  draw(done, static_cast<double>(now - start_ns_) * 1e-9);
}

void Progress::draw(uint64_t done, double elapsed_s) {
  const double rate = elapsed_s > 0 ? static_cast<double>(done) / elapsed_s : 0;
  const double left_s = rate > 0 ? static_cast<double>(total_ - std::min(done, total_)) / rate : 0;
  const std::string numbers = fmt::format("{}/{} {}, {:.0f}/s, {} left", done, total_, unit_, rate,
                                          format_duration(left_s));
  if (!is_terminal_) {
    write_stderr(fmt::format("{}: {}\n", label_, numbers));
    return;
  }
  const uint64_t filled = std::min(done, total_) * kBarCells / total_;
  const std::string bar = std::string(filled, '#') + std::string(kBarCells - filled, '.');
  write_stderr(fmt::format("\r\x1b[K{} [{}] {}", label_, bar, numbers));
}

}  // namespace farpage
