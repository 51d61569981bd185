#include "tier/link/client_sources.h"

#include <fcntl.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace farpage {

namespace {

auto find_number(auto& sources, uint32_t number) {
  return std::ranges::find_if(sources,
                              [number](const auto& each) { return each.second.number == number; });
}

}  // namespace

uint32_t ClientSources::add(const MemoryRange& memory) {
  const std::lock_guard lock(mutex_);
  sources_.emplace(reinterpret_cast<uintptr_t>(memory.data), Source{++last_, memory});
  return last_;
}

void ClientSources::remove(uint32_t source) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sources_, [source](const auto& each) { return each.second.number == source; });
  std::erase_if(wanted_, [source](const Wanted& each) { return each.source == source; });
}

bool ClientSources::has(uint32_t source) const {
  const std::lock_guard lock(mutex_);
  return find_number(sources_, source) != sources_.end();
}

uint64_t ClientSources::begin_put() {
  const std::lock_guard lock(mutex_);
  return ++last_put_;
}

std::optional<SourcePlace> ClientSources::find(const Slice& bytes, uint64_t put) {
  if (!bytes.place.is_host()) return std::nullopt;
  const auto at = reinterpret_cast<uintptr_t>(bytes.data);
  const std::lock_guard lock(mutex_);
  const auto behind = sources_.upper_bound(at);
  if (behind == sources_.begin()) return std::nullopt;
  auto& [begin, source] = *std::prev(behind);
  const uint64_t length = source.memory.bytes;
  if (at - begin > length || bytes.bytes > length - (at - begin)) return std::nullopt;
  if (source.first_put == 0) source.first_put = put;
  if (source.first_put != put && !std::exchange(source.is_wanted, true)) {
    wanted_.push_back({source.number, source.memory});
  }
  return SourcePlace{source.number, at - begin};
}

std::vector<ClientSources::Wanted> ClientSources::take_wanted() {
  const std::lock_guard lock(mutex_);
  return std::exchange(wanted_, {});
}

void ClientSources::exported(uint32_t source, RegionExport memory) {
  const std::lock_guard lock(mutex_);
  const auto found = find_number(sources_, source);
  if (found != sources_.end()) found->second.exported = std::move(memory);
}

std::vector<uint32_t> ClientSources::all_exported() const {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t> numbers;
  for (const auto& [begin, source] : sources_) {
    if (source.exported) numbers.push_back(source.number);
  }
  return numbers;
}

std::optional<RegionExport> ClientSources::export_of(uint32_t source) const {
  const std::lock_guard lock(mutex_);
  const auto found = find_number(sources_, source);
  if (found == sources_.end() || !found->second.exported) return std::nullopt;
  const RegionExport& from = *found->second.exported;
  RegionExport copy;
  copy.bytes = from.bytes;
  copy.access = from.access;
  copy.place = from.place;
  copy.opaque = from.opaque;
  copy.fd.reset(::fcntl(from.fd.get(), F_DUPFD_CLOEXEC, 0));
  return copy.fd.valid() ? std::optional(std::move(copy)) : std::nullopt;
}

bool SourcesAtNode::begin(uint32_t source) {
  const std::lock_guard lock(mutex_);
  return told_.size() < most_ && told_.insert(source).second;
}

void SourcesAtNode::taken(uint32_t source) {
  const std::lock_guard lock(mutex_);
  if (told_.contains(source)) taken_.insert(source);
}

bool SourcesAtNode::end(uint32_t source) {
  const std::lock_guard lock(mutex_);
  taken_.erase(source);
  return told_.erase(source) > 0;
}

bool SourcesAtNode::reads(uint32_t source) const {
  const std::lock_guard lock(mutex_);
  return taken_.contains(source);
}

}  // namespace farpage
