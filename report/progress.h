#pragma once

#include <cstdint>
#include <string>

namespace farpage {

// How far a piece of work is, on standard error: a bar that is drawn over itself on a terminal,
// otherwise a line every two seconds. The destructor ends the line.
class Progress {
 public:
  // `unit` is what is counted: "requests".
  Progress(std::string label, std::string unit, uint64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // Cheap: looks at the clock and does nothing most of the time.
  void update(uint64_t done);

 private:
  void draw(uint64_t done, double elapsed_s);

  std::string label_;
  std::string unit_;
  uint64_t total_;
  bool is_terminal_;
  uint64_t start_ns_;
  uint64_t next_ns_;
  uint64_t done_ = 0;
};

// 75 → "1:15".
std::string format_duration(double seconds);

}  // namespace farpage
