#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace farpage {

// Frames of a device's memory, which this process does not reach by itself.
class DeviceFrames {
 public:
  virtual ~DeviceFrames() = default;
  // Before whatever is asked of the frame later.
  virtual void fill(size_t frame, std::byte value) = 0;
  virtual void read(size_t frame, std::span<std::byte> bytes) = 0;
};

// An engine's memory in frames of one page each. A frame that no operation may write any more is
// filled with a pattern, which must still be there when it is used again and at the end (I4).
class PageFrames {
 public:
  // `late`: told of a frame that was written nevertheless. `device`: pages land in its frames, and
  // those here are copies of them; it outlives this.
  PageFrames(size_t frames, uint64_t page_bytes, std::function<void(size_t)> late,
             DeviceFrames* device = nullptr)
      : page_bytes_(page_bytes),
        memory_(frames * page_bytes),
        patterned_(frames),
        late_(std::move(late)),
        device_(device) {
    for (size_t index = frames; index-- > 0;) free_.push_back(index);
  }

  std::span<std::byte> memory() { return memory_; }
  std::span<std::byte> frame(size_t index) {
    return {memory_.data() + index * page_bytes_, page_bytes_};
  }
  // What has landed there by now.
  std::span<const std::byte> landed(size_t index) {
    if (device_ != nullptr) device_->read(index, frame(index));
    return frame(index);
  }
  size_t size() const { return patterned_.size(); }
  uint64_t offset(size_t index) const { return index * page_bytes_; }
  bool owns(const std::byte* byte) const {
    return byte >= memory_.data() && byte < memory_.data() + memory_.size();
  }
  size_t index_of(const std::byte* byte) const {
    return static_cast<size_t>(byte - memory_.data()) / page_bytes_;
  }

  // The one that was given back first. False: none is free.
  bool take(size_t& index) {
    if (free_.empty()) return false;
    index = free_.front();
    free_.erase(free_.begin());
    check(index);
    patterned_[index] = false;
    fill(index, std::byte{0});
    return true;
  }
  void give_back(size_t index) {
    fill(index, pattern(index));
    patterned_[index] = true;
    free_.push_back(index);
  }
  void check_all() {
    for (size_t index = 0; index < size(); ++index) check(index);
  }

 private:
  static std::byte pattern(size_t index) { return static_cast<std::byte>(0xA5 ^ index); }

  void fill(size_t index, std::byte value) {
    std::ranges::fill(frame(index), value);
    if (device_ != nullptr) device_->fill(index, value);
  }
  void check(size_t index) {
    if (!patterned_[index]) return;
    const auto same = [&](std::byte byte) { return byte == pattern(index); };
    if (!std::ranges::all_of(landed(index), same)) late_(index);
  }

  uint64_t page_bytes_;
  std::vector<std::byte> memory_;
  std::vector<size_t> free_;
  std::vector<bool> patterned_;
  std::function<void(size_t)> late_;
  DeviceFrames* device_;
};

}  // namespace farpage
