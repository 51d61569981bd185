#include "tier/push/landing_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage {
namespace {

constexpr uint64_t kRetryNs = 50 * kMillisecond;
constexpr ptrdiff_t kMostEnding = 2;  // landings whose channels are not gone yet

Error why_none(const Result<Reply>& reply) {
  if (!reply) return reply.error();
  const auto* refusal = std::get_if<Refusal>(&*reply);
  if (refusal != nullptr) return {refusal->code, refusal->message};
  return {Code::kProtocol, "the node did not answer with a push lane"};
}

}  // namespace

LandingPath::~LandingPath() {
  for (const Former& former : former_) former.disposal->finish();
  if (view_ != nullptr && lane_ != 0) view_->retired_push_lanes.add(lane_);
}

void LandingPath::refresh_view() {
  const uint64_t number = link_->view_number();
  if (number == view_number_) return;
  view_number_ = number;
  newest_ = link_->view();
  retry_ns_ = 0;
}

bool LandingPath::view_valid(uint64_t now_ns) {
  refresh_view();
  const View* view = is_open() ? view_.get() : newest_.get();
  return view != nullptr && view->valid(now_ns);
}

bool LandingPath::outdated() {
  refresh_view();
  return is_open() && view_ != newest_;
}

bool LandingPath::advance(uint64_t now_ns) {
  refresh_view();
  if (!former_.empty()) {
    std::erase_if(former_, [](const Former& former) {
      return !former.landing->lent() && former.disposal->ended();
    });
  }
  if (is_open()) return view_ == newest_;
  // The answer of an older view is of no use, and may never come.
  if (answer_ != nullptr && view_ != newest_) answer_.reset();
  // A device that flushes slowly is not given one landing after the other.
  const auto ending = std::ranges::count_if(
      former_, [](const Former& former) { return !former.disposal->ended(); });
  if (answer_ == nullptr && ending < kMostEnding && newest_ != nullptr && newest_->valid(now_ns) &&
      now_ns >= retry_ns_) {
    ask();
  }
  if (answer_ != nullptr && answer_->here.load(std::memory_order_acquire)) answered(now_ns);
  return is_open();
}

void LandingPath::end() {
  if (!is_open()) return;
  ChannelDisposal::Parts parts;
  parts.pushes = landing_->detach();
  former_.push_back(
      {std::move(landing_), ChannelDisposal::begin(link_->runtime(), std::move(parts))});
}

void LandingPath::ask() {
  const bool again = view_ == newest_ && lane_ != 0;
  const uint64_t replaces = again ? lane_ : newest_->retired_push_lanes.take();
  view_ = newest_;
  lane_ = 0;
  answer_ = std::make_shared<Answer>(*link_, view_);
  Runtime& runtime = link_->runtime();
  // To register memory lasts.
  runtime.offload(JobClass::kConnect,
                  [answer = answer_, gate = link_->gate(), places = places_, replaces,
                   slot_bytes = view_->geometry.slot_bytes(), weak_view = std::weak_ptr(view_)] {
                    auto request = gate->pass([&](Fabric& fabric) {
                      return make(fabric, places, slot_bytes, answer->landing);
                    });
                    if (!request) return answer->tell(request.error());
                    const auto view = weak_view.lock();
                    if (view == nullptr)
                      return answer->tell(Error{Code::kAborted, "the view has ended"});
                    request->replaces = replaces;
                    view->link->call(std::move(*request), [answer](const Result<Reply>& reply) {
                      const auto* opened = reply ? std::get_if<OpenPushReply>(&*reply) : nullptr;
                      if (opened == nullptr) return answer->tell(why_none(reply));
                      answer->lane = opened->lane;
                      answer->tell(std::nullopt);
                    });
                  });
}

Result<OpenPushRequest> LandingPath::make(Fabric& fabric, uint64_t places, uint64_t slot_bytes,
                                          std::unique_ptr<PushLanding>& landing) {
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

void LandingPath::answered(uint64_t now_ns) {
  const std::shared_ptr<Answer> answer = std::move(answer_);
  lane_ = std::exchange(answer->lane, 0);
  error_ = answer->error;
  if (error_) {
    retry_ns_ = now_ns + kRetryNs;
    if (!lost_link()) warnings_.warn("cannot open a push lane: " + error_->message);
    return;
  }
  landing_ = std::move(answer->landing);
}

void LandingPath::wait(uint64_t deadline_ns) {
  const uint64_t until =
      answer_ == nullptr
          ? std::min(deadline_ns, std::max(retry_ns_, link_->runtime().clock().now_ns() + kRetryNs))
          : deadline_ns;
  link_->runtime().wait_until(until, [this] {
    return link_->view_number() != view_number_ ||
           (answer_ != nullptr && answer_->here.load(std::memory_order_acquire));
  });
}

}  // namespace farpage
