#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "replay/text/text_file.h"

namespace farpage {

// A file that unpacks to more is not a trace: one line over and over does to four hundred times as
// much, and one byte over and over to a thousand.
inline constexpr uint64_t kMostUnpackedTimes = 600;
inline constexpr uint64_t kUnpackedUnjudgedBytes = uint64_t{64} << 20;

// Unpacks gzip files, of one member or several. Errors name the file.
class Gunzip final : public ByteSource {
 public:
  // `head` came before what `packed` has still.
  Gunzip(std::string path, std::unique_ptr<ByteSource> packed, std::string head);
  ~Gunzip() override;
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  Result<size_t> read(std::span<char> into) override;

 private:
  struct Stream;

  Result<void> refill();
  Result<bool> begin_next_member();  // false: there is none
  tl::unexpected<Error> refuse(const std::string& why) const;

  std::string path_;
  std::unique_ptr<ByteSource> packed_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is in buffer_ and not unpacked yet
  size_t end_ = 0;
  std::unique_ptr<Stream> stream_;
  bool in_member_ = true;
  uint64_t packed_bytes_ = 0;
  uint64_t unpacked_bytes_ = 0;
};

}  // namespace farpage
