#include "client/c/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace farpage::c_api {
namespace {

constexpr size_t kMostStructBytes = 4'096;  // more is no size, but what lay in the memory before

// Structs may end here in the oldest program.
constexpr size_t kLeastPageBytes = offsetof(farpage_page_t, min_version);
constexpr size_t kLeastNotificationBytes = offsetof(farpage_notification_t, callback);
constexpr size_t kLeastAccessBytes = offsetof(farpage_access_t, head);
constexpr size_t kLeastGpuBlocksBytes = 48;  // with `blocks`
constexpr size_t kLeastStatisticsBytes = offsetof(farpage_statistics_t, ready_bytes);

Result<void> check_size(size_t size, size_t least) {
  if (size >= least && size <= kMostStructBytes && size % alignof(uint64_t) == 0) return {};
  return fail(Code::kInvalid,
              fmt::format("struct_size is {}: set it to the sizeof of the struct", size));
}

// `size` bytes that the caller has filled; what it does not know has its default in `to`.
template <typename Struct>
Result<void> read_struct(const std::byte* from, size_t size, size_t least, Struct& to) {
  if (auto valid = check_size(size, least); !valid) return valid;
  to = {};
  std::memcpy(&to, from, std::min(size, sizeof to));
  for (size_t i = sizeof to; i < size; ++i) {
    if (from[i] == std::byte{0}) continue;
    return fail(Code::kInvalid,
                fmt::format("a field at byte {} is set, which version {} of the library does not "
                            "know: leave it 0, or use a library as new as the program's farpage.h",
                            i, farpage_version()));
  }
  return {};
}

PageKey to_key(const farpage_key_t& key) {
  PageKey made;
  std::memcpy(&made, key.bytes, sizeof made);
  return made;
}

Result<const farpage_region*> region_of(const farpage_page_t& page, Regions::Reader& regions) {
  if (page.data == nullptr) {
    return fail(Code::kInvalid,
                "data is null: set it to the page's memory; farpage_exists() needs none");
  }
  if (page.bytes == 0) return fail(Code::kInvalid, "bytes is 0: set it to the page's length");
  const farpage_region* region = regions.find(page.data, page.bytes);
  if (region != nullptr) return region;
  return fail(Code::kInvalid,
              fmt::format("its {} bytes at {} lie in no region: register the memory first, with "
                          "farpage_register()",
                          page.bytes, page.data));
}

// `take` takes each of an array, in its order. An error names the index of the one that is wrong.
template <typename Struct, typename Take>
Result<void> read_array(const char* what, const Struct* array, size_t count, size_t least,
                        Take&& take) {
  if (count == 0) return {};
  const size_t stride = array->struct_size;  // as long as the caller knows the struct
  const auto* from = reinterpret_cast<const std::byte*>(array);
  const auto read_one = [&](size_t number) -> Result<void> {
    Struct one;
    const std::byte* at = from + number * stride;
    if (auto read = read_struct(at, stride, least, one); !read) return read;
    if (one.struct_size == stride) return take(one);
    return fail(Code::kInvalid, fmt::format("struct_size is {}, and that of {} 0 is {}: they are "
                                            "the same in all of an array",
                                            one.struct_size, what, stride));
  };
  for (size_t i = 0; i < count; ++i) {
    const auto read = read_one(i);
    if (read) continue;
    return fail(read.error().code, fmt::format("{} {}: {}", what, i, read.error().message));
  }
  return {};
}

// `make` makes the request of a page, its region and its slice.
template <typename Request, typename Make>
Result<Batch<Request>> read_pages(const farpage_page_t* pages, size_t count,
                                  Regions::Reader& regions, Make&& make) {
  Batch<Request> batch;
  batch.requests.reserve(count);
  const auto take = [&](const farpage_page_t& page) -> Result<void> {
    const auto region = region_of(page, regions);
    if (!region) return tl::unexpected(region.error());
    const uint64_t offset =
        static_cast<uint64_t>(static_cast<std::byte*>(page.data) - (*region)->memory.data());
    auto request = make(page, **region, (*region)->memory.slice(offset, page.bytes));
    if (!request) return tl::unexpected(request.error());
    batch.requests.push_back(*request);
    if (std::ranges::find(batch.regions, *region) == batch.regions.end()) {
      batch.regions.push_back(*region);
    }
    return {};
  };
  const auto read = read_array("page", pages, count, kLeastPageBytes, take);
  if (!read) return tl::unexpected(read.error());
  return batch;
}

}  // namespace

Result<Batch<PageRequest>> read_fetch(const farpage_page_t* pages, size_t count,
                                      Regions::Reader& regions) {
  return read_pages<PageRequest>(
      pages, count, regions,
      [](const farpage_page_t& page, const farpage_region& region,
         const Slice& slice) -> Result<PageRequest> {
        if (!region.is_read_only) return PageRequest{to_key(page.key), page.min_version, slice};
        return fail(Code::kInvalid,
                    "some of its region could not be written when it was registered, so that it is "
                    "for puts alone: fetch into other memory, or register it again");
      });
}

Result<Batch<PutRequest>> read_put(const farpage_page_t* pages, size_t count,
                                   Regions::Reader& regions) {
  return read_pages<PutRequest>(pages, count, regions,
                                [](const farpage_page_t& page, const farpage_region&,
                                   const Slice& slice) -> Result<PutRequest> {
                                  if (page.min_version == 0)
                                    return PutRequest{to_key(page.key), slice};
                                  return fail(Code::kInvalid,
                                              "min_version is for fetches: leave it 0 in a put");
                                });
}

Result<std::vector<ObservedAccess>> read_accesses(const farpage_access_t* accesses, size_t count) {
  std::vector<ObservedAccess> made;
  made.reserve(count);
  const auto take = [&](const farpage_access_t& access) -> Result<void> {
    if (access.mark >= prefetch::kMarks) {
      return fail(Code::kInvalid,
                  fmt::format("mark is {}: set it to a farpage_mark_t, or to 0", access.mark));
    }
    made.push_back({.key = to_key(access.key),
                    .step = access.step,
                    .head = access.head,
                    .mass = access.mass,
                    .score = access.score,
                    .similarity = access.similarity,
                    .category = access.category,
                    .entropy = access.entropy,
                    .margin = access.margin,
                    .mark = static_cast<prefetch::Mark>(access.mark)});
    return {};
  };
  const auto read = read_array("access", accesses, count, kLeastAccessBytes, take);
  if (!read) return tl::unexpected(read.error());
  return made;
}

Result<cuda::GpuBlocks> read_gpu_blocks(const farpage_gpu_blocks_t& blocks) {
  farpage_gpu_blocks_t read = {};
  const auto valid = read_struct(reinterpret_cast<const std::byte*>(&blocks), blocks.struct_size,
                                 kLeastGpuBlocksBytes, read);
  if (!valid) return tl::unexpected(valid.error());
  if (read.pieces == nullptr && read.piece_count > 0) {
    return fail(Code::kInvalid, "pieces is null: set it to the addresses of block 0's pieces");
  }
  return cuda::GpuBlocks{.pieces = {read.pieces, read.piece_count},
                         .piece_bytes = read.piece_bytes,
                         .block_stride = read.block_stride,
                         .count = read.blocks};
}

Result<void> write_statistics(const Statistics& from, farpage_statistics_t& to) {
  const size_t size = to.struct_size;
  if (auto valid = check_size(size, kLeastStatisticsBytes); !valid) return valid;
  const VerdictCounts& verdicts = from.verdicts;
  const farpage_statistics_t all = {.struct_size = size,
                                    .ready = verdicts.ready,
                                    .ready_bytes = verdicts.ready_bytes,
                                    .miss = verdicts.miss,
                                    .stale = verdicts.stale,
                                    .corrupt = verdicts.corrupt,
                                    .stalled = verdicts.stalled,
                                    .unreachable = verdicts.unreachable,
                                    .slower = verdicts.slower,
                                    .near_ready = from.near,
                                    .fetched_ahead = from.fetched_ahead,
                                    .ahead_places = from.ahead_places,
                                    .puts_acknowledged = from.puts_acknowledged,
                                    .puts_failed = from.puts_failed,
                                    .under_way = from.under_way,
                                    .fetch_tickets_free = from.fetch_tickets_free,
                                    .put_tickets_free = from.put_tickets_free};
  auto* const begin = reinterpret_cast<std::byte*>(&to);
  std::memset(begin, 0, size);
  std::memcpy(begin, &all, std::min(size, sizeof all));
  return {};
}

std::vector<PageKey> read_keys(const farpage_key_t* keys, size_t count) {
  std::vector<PageKey> read(count);
  std::transform(keys, keys + count, read.begin(), to_key);
  return read;
}

Result<farpage_notification_t> read_notification(const farpage_notification_t* notification) {
  farpage_notification_t read = {};
  if (notification == nullptr) return read;
  const auto valid = read_struct(reinterpret_cast<const std::byte*>(notification),
                                 notification->struct_size, kLeastNotificationBytes, read);
  if (valid) return read;
  return fail(valid.error().code, "notification: " + valid.error().message);
}

}  // namespace farpage::c_api
