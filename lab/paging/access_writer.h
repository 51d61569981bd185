#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "lab/paging/access_block.h"

namespace farpage::paging {

// Writes an access trace (docs/formats/access-trace.md), a block at a time. Until finish() the file
// has no end, and every reader says so. On one thread.
class AccessWriter {
 public:
  // The header's columns are those that are written.
  static Result<std::unique_ptr<AccessWriter>> create(const std::string& path,
                                                      const AccessFileHeader& header);

  // Steps do not go back, and pages are numbered as they are first added.
  Result<void> add(const prefetch::Access& access);
  Result<void> finish();

 private:
  AccessWriter(std::string path, std::ofstream file, const AccessFileHeader& header);
  void add_signal(size_t column, const prefetch::Access& access);
  Result<void> end_block();
  Result<void> write_framed(uint32_t number, const std::string& bytes);

  std::string path_;
  std::ofstream file_;
  const std::vector<prefetch::Signal> signals_;
  const bool has_heads_;
  uint64_t step_ = 0;
  uint64_t page_ = 0;
  uint64_t pages_ = 0;
  uint64_t accesses_ = 0;
  // Of the block that is being filled.
  uint32_t count_ = 0;
  std::string steps_;
  std::string page_numbers_;
  std::string heads_;
  std::vector<std::string> columns_;  // as signals_
};

}  // namespace farpage::paging
