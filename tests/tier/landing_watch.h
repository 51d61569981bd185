#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "control/link.h"
#include "integrity/page_header.h"
#include "sim/findings.h"
#include "transport/forwarding_fabric.h"
#include "transport/transfer_counters.h"

namespace farpage {

// Stands between a client of push lanes and its node, on both its wires, and looks after I4 by what
// passes there: a place may be written from when it is asked for until the immediate of its group
// has come. It must not be asked for again before that, and nothing may be written into it
// afterwards, until it is asked for again. A landing whose target is closed is left alone.
//
// One thread. Outlives the client.
class LandingWatch {
 public:
  LandingWatch(Fabric& fabric, ControlDialer& dialer, uint64_t place_bytes, Findings& findings)
      : fabric_(fabric, *this),
        dialer_(dialer, *this),
        place_bytes_(place_bytes),
        findings_(findings) {}

  Fabric& fabric() { return fabric_; }
  ControlDialer& dialer() { return dialer_; }

  // At places whose group is there.
  void look() {
    for (auto& [id, landing] : landings_) {
      for (Place& place : landing.places) look(place);
    }
  }
  uint64_t used_again() const { return used_again_; }

 private:
  struct Place {
    std::span<std::byte> memory;
    bool awaited = false;  // the node may write it
    // The bytes that its group's immediate found there, but for the live word: that is the
    // client's.
    std::optional<std::vector<std::byte>> settled;
  };
  struct Landing {
    std::string offer;
    uint64_t lane = 0;  // 0: not open yet
    std::vector<Place> places;
    std::map<uint32_t, std::vector<uint32_t>> groups;  // by the immediate that is awaited
  };

  static std::vector<std::byte> content(const Place& place) {
    constexpr size_t kLive = offsetof(PageHeader, live);
    const auto before = place.memory.first(kLive);
    const auto behind = place.memory.subspan(kLive + sizeof(PageHeader::live));
    std::vector<std::byte> bytes(before.begin(), before.end());
    bytes.insert(bytes.end(), behind.begin(), behind.end());
    return bytes;
  }
  void look(Place& place) {
    if (!place.settled || content(place) == *place.settled) return;
    findings_.add(FindingKind::kLateLandings, "a place is written after its group was there");
    place.settled.reset();
  }

  void asked(const PushRequest& request) {
    // The numbers begin again with each run of the node.
    const auto found = std::find_if(landings_.rbegin(), landings_.rend(), [&](const auto& landing) {
      return landing.second.lane == request.lane;
    });
    if (found == landings_.rend()) {
      findings_.add(FindingKind::kLateLandings, "a push names a lane whose landing has ended");
      return;
    }
    Landing& landing = found->second;
    for (uint32_t at = 0; at < request.pages.size(); ++at) {
      const uint32_t index = request.pages[at].place;
      Place& place = landing.places.at(index);
      look(place);
      if (place.awaited) {
        findings_.add(FindingKind::kLateLandings, "a place is asked for that may yet be written");
      }
      used_again_ += place.settled.has_value();
      place.settled.reset();
      place.awaited = true;
      const uint32_t group = at / request.group_pages;
      landing.groups[group_immediate(request.immediate, group)].push_back(index);
    }
  }
  void opened(const std::string& offer, uint64_t lane) {
    for (auto& [id, landing] : landings_) {
      if (landing.offer == offer) landing.lane = lane;
    }
  }
  void arrived(uint64_t id, uint32_t immediate) {
    Landing& landing = landings_.at(id);
    for (const uint32_t index : landing.groups[immediate]) {
      Place& place = landing.places[index];
      place.awaited = false;
      place.settled = content(place);
    }
    landing.groups.erase(immediate);
  }

  class LandingTarget final : public Target {
   public:
    LandingTarget(std::unique_ptr<Target> target, LandingWatch& watch, uint64_t id)
        : watch_(watch), id_(id), target_(std::move(target)) {}
    ~LandingTarget() override { watch_.landings_.erase(id_); }

    Result<Region> allocate_writable(uint64_t bytes) override {
      auto region = target_->allocate_writable(bytes);
      auto& places = watch_.landings_.at(id_).places;
      const uint64_t place_bytes = watch_.place_bytes_;
      for (uint64_t at = 0; at + place_bytes <= bytes; at += place_bytes) {
        places.push_back({{region->data() + at, place_bytes}, false, std::nullopt});
      }
      return region;
    }
    size_t poll(std::span<uint32_t> immediates) override {
      const size_t count = target_->poll(immediates);
      for (const uint32_t immediate : immediates.first(count)) watch_.arrived(id_, immediate);
      return count;
    }
    void wait(uint64_t deadline_ns) override { target_->wait(deadline_ns); }
    void close() override {
      watch_.landings_.erase(id_);
      target_->close();
    }

   private:
    LandingWatch& watch_;
    const uint64_t id_;
    std::unique_ptr<Target> target_;
  };

  class WatchedFabric final : public ForwardingFabric {
   public:
    WatchedFabric(Fabric& fabric, LandingWatch& watch) : ForwardingFabric(fabric), watch_(watch) {}

    Result<OfferedTarget> offer_channel(ChannelPurpose purpose) override {
      auto offered = ForwardingFabric::offer_channel(purpose);
      const uint64_t id = ++watch_.last_;
      watch_.landings_[id].offer = offered->offer.opaque;
      offered->target = std::make_unique<LandingTarget>(std::move(offered->target), watch_, id);
      return offered;
    }

   private:
    LandingWatch& watch_;
  };

  class WatchedLink final : public ControlLink {
   public:
    WatchedLink(std::shared_ptr<ControlLink> link, LandingWatch& watch)
        : link_(std::move(link)), watch_(watch) {}

    void call(Request request, ReplyCallback done) override {
      if (const auto* push = std::get_if<PushRequest>(&request)) watch_.asked(*push);
      if (const auto* open = std::get_if<OpenPushRequest>(&request)) {
        done = [&watch = watch_, offer = open->offer.opaque,
                done = std::move(done)](Result<Reply> reply) {
          const auto* opened = reply ? std::get_if<OpenPushReply>(&*reply) : nullptr;
          if (opened != nullptr) watch.opened(offer, opened->lane);
          done(std::move(reply));
        };
      }
      link_->call(std::move(request), std::move(done));
    }
    void close() override { link_->close(); }
    const Peer& peer() const override { return link_->peer(); }

   private:
    std::shared_ptr<ControlLink> link_;
    LandingWatch& watch_;
  };

  class WatchedDialer final : public ControlDialer {
   public:
    WatchedDialer(ControlDialer& dialer, LandingWatch& watch) : dialer_(dialer), watch_(watch) {}

    void dial(DialCallback done) override {
      dialer_.dial([this, done = std::move(done)](Result<std::shared_ptr<ControlLink>> link) {
        if (link) *link = std::make_shared<WatchedLink>(std::move(*link), watch_);
        done(std::move(link));
      });
    }

   private:
    ControlDialer& dialer_;
    LandingWatch& watch_;
  };

  WatchedFabric fabric_;
  WatchedDialer dialer_;
  const uint64_t place_bytes_;
  Findings& findings_;
  std::map<uint64_t, Landing> landings_;  // that are open, or about to be
  uint64_t last_ = 0;
  uint64_t used_again_ = 0;
};

}  // namespace farpage
