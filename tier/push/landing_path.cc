#include "tier/push/landing_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage {
namespace {

constexpr ptrdiff_t kMostEnding = 2;  // landings whose channels are not gone yet

}  // namespace

LandingPath::~LandingPath() {
  for (const Former& former : former_) former.disposal->finish();
}

bool LandingPath::advance(uint64_t now_ns) {
  refresh_view();
  if (!former_.empty()) {
    std::erase_if(former_, [](const Former& former) {
      return !former.landing->lent() && former.disposal->ended();
    });
  }
  if (is_open()) return view_ == newest_;
  // A device that flushes slowly is not given one landing after the other.
  const auto ending = std::ranges::count_if(
      former_, [](const Former& former) { return !former.disposal->ended(); });
  if (ending < kMostEnding && may_ask(now_ns)) ask();
  return take_answer(now_ns);
}

void LandingPath::end() {
  if (!is_open()) return;
  state_ = State::kClosed;
  auto disposal = ChannelDisposal::begin(link_->runtime(), {nullptr, opened_->detach()});
  former_.push_back({std::move(opened_), std::move(disposal)});
}

void LandingPath::ask() {
  const uint64_t replaces = begin_asking();
  // To register memory lasts.
  link_->runtime().offload(JobClass::kConnect, [answer = answer_, places = places_, replaces,
                                                slot_bytes = view_->geometry.slot_bytes()] {
    auto request = answer->gate->pass(
        [&](Fabric& fabric) { return make(fabric, places, slot_bytes, answer->opened); });
    if (!request) return answer->tell(request.error());
    const auto view = answer->view.lock();
    if (view == nullptr) return answer->tell(Error{Code::kAborted, "the view has ended"});
    request->replaces = replaces;
    view->link->call(std::move(*request), [answer](Result<Reply> reply) {
      if (answer->granted<OpenPushReply>(reply) != nullptr) answer->tell(std::nullopt);
    });
  });
}

Result<OpenPushRequest> LandingPath::make(Fabric& fabric, uint64_t places, uint64_t slot_bytes,
                                          std::optional<std::unique_ptr<PushLanding>>& landing) {
  if (!fabric.capabilities().pushes) {
    return fail(Code::kInvalid,
                fmt::format("pages cannot be pushed over {}, for no node can dial a client there: "
                            "fetch them instead, or use shm or verbs",
                            fabric.capabilities().backend));
  }
  auto offered = fabric.offer_channel(ChannelPurpose::kStage);
  if (!offered) return tl::unexpected(offered.error());
  auto region = offered->target->allocate_writable(places * slot_bytes);
  if (!region) return tl::unexpected(region.error());
  auto exported = fabric.export_region(*region);
  if (!exported) return tl::unexpected(exported.error());
  landing =
      std::make_unique<PushLanding>(std::move(offered->target), std::move(*region), slot_bytes);
  OpenPushRequest request;
  request.offer = std::move(offered->offer);
  request.landing = std::move(*exported);
  return request;
}

}  // namespace farpage
