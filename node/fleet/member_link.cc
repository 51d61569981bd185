#include "node/fleet/member_link.h"

namespace farpage {

namespace {

ClientOptions options_of_member(uint64_t patience_ms) {
  ClientOptions options;
  options.connect_ms = patience_ms;
  options.staging_bytes = 0;
  options.location_pages = 1;  // where a page lies is what the other member says
  return options;
}

}  // namespace

MemberLink::MemberLink(Runtime& runtime, Fabric& fabric, std::shared_ptr<FabricGate> gate,
                       ControlDialer& dialer, const HelloExpectations& terms, PoolLanding& landing,
                       uint64_t patience_ms)
    : runtime_(runtime),
      node_(terms.peer),
      expected_ns_(runtime.clock().now_ns() + patience_ms * kMillisecond),
      link_(std::make_shared<NodeSession>(options_of_member(patience_ms), runtime, fabric,
                                          std::move(gate), dialer, terms)),
      reader_(link_, runtime, fabric, landing) {
  link_->start();
}

MemberLink::~MemberLink() {
  link_->stop();
}

bool MemberLink::reached() const {
  const auto view = link_->view();
  return view != nullptr && view->connected && view->valid(runtime_.clock().now_ns());
}

bool MemberLink::away() const {
  const uint64_t now = runtime_.clock().now_ns();
  const auto view = link_->view();
  return view == nullptr ? now >= expected_ns_ : !view->valid(now);
}

std::string MemberLink::why_away() const {
  const auto error = link_->error();
  return error ? error->message : "it has not answered yet";
}

uint64_t MemberLink::incarnation() const {
  const auto view = link_->view();
  return view == nullptr ? 0 : view->incarnation;
}

void MemberLink::greet_again() {
  if (const auto view = link_->view()) link_->give_up(view);
}

void MemberLink::call(Request request, ReplyCallback done) {
  const auto view = link_->view();
  if (view == nullptr || !view->connected) {
    runtime_.after(0, [done = std::move(done)] {
      done(fail(Code::kUnavailable, "this member is not reached"));
    });
    return;
  }
  // A link that is lost may say so within the call.
  view->link->call(
      std::move(request), [&runtime = runtime_, done = std::move(done)](Result<Reply> reply) {
        if (reply) return done(std::move(reply));
        runtime.after(0, [done, error = reply.error()] { done(tl::unexpected(error)); });
      });
}

}  // namespace farpage
