#include "transport/shm/source_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/memory/lost_memory.h"
#include "base/memory/mapping.h"
#include "base/memory/shared_file.h"
#include "integrity/crc32c.h"
#include "transport/peer_memory.h"

namespace farpage::shm {
namespace {

class FileSource final : public PeerSource {
 public:
  // `begin`: of the memory, in the mapping.
  FileSource(Mapping mapping, uint64_t begin) : mapping_(std::move(mapping)), begin_(begin) {}

  uint64_t bytes() const override { return mapping_.bytes() - begin_; }

  std::optional<uint32_t> copy(void* to, uint64_t offset, uint64_t bytes) const override {
    if (offset > this->bytes() || bytes > this->bytes() - offset) return std::nullopt;
    const std::byte* from = mapping_.data() + begin_ + offset;
    uint32_t crc = 0;
    auto work = [&] { crc = copy_with_crc32c(0, to, from, bytes); };
    return run_unless_lost({from, bytes}, work) ? std::optional(crc) : std::nullopt;
  }

 private:
  const Mapping mapping_;
  const uint64_t begin_;
};

// Why it cannot be mapped as this region; null: it can.
const char* why_no_source(const RegionExport& memory, uint64_t offset) {
  if (memory.bytes == 0 || memory.bytes > kMaxRegionBytes) return "its size is out of range";
  if (offset > kMaxRegionBytes) return "it lies too far inside its file";
  if (!memory.place.is_host()) return "it is not host memory";
  if (!is_file_in_memory(memory.fd.get())) return "it is no file in memory";
  struct stat status;
  if (::fstat(memory.fd.get(), &status) != 0 || status.st_uid != ::geteuid()) {
    return "its file is another user's";
  }
  if (static_cast<uint64_t>(status.st_size) < offset + memory.bytes) return "its file is shorter";
  return nullptr;
}

}  // namespace

std::optional<RegionExport> export_file_of(const MemoryRange& memory) {
  if (!memory.place.is_host()) return std::nullopt;
  auto found = shared_file_of(memory.data, memory.bytes);
  if (!found) return std::nullopt;
  RegionExport exported;
  exported.bytes = memory.bytes;
  exported.opaque.assign(reinterpret_cast<const char*>(&found->offset), sizeof found->offset);
  exported.fd = std::move(found->file);
  return exported;
}

Result<std::unique_ptr<PeerSource>> import_file(RegionExport memory) {
  uint64_t offset = 0;
  const bool is_known = memory.opaque.size() == sizeof offset;
  if (is_known) std::memcpy(&offset, memory.opaque.data(), sizeof offset);
  const char* why = is_known ? why_no_source(memory, offset) : "it does not say where it lies";
  if (why != nullptr) {
    return fail(Code::kInvalid, std::string("the client's memory is not read in place: ") + why);
  }
  const uint64_t begin = offset % static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  auto mapping =
      Mapping::share(memory.fd.get(), begin + memory.bytes, Protection::kReadOnly, offset - begin);
  if (!mapping) return tl::unexpected(mapping.error());
  return std::make_unique<FileSource>(std::move(*mapping), begin);
}

}  // namespace farpage::shm
