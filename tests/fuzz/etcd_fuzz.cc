// Answers of an etcd, or of any server in its place. The first byte chooses which answer it is
// taken for.
#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "etcd/records.h"

namespace farpage::etcd {
namespace {

void read_fleet_from(std::string_view text) {
  const std::string prefix = "/farpage/x/";
  const auto reply = decode_transaction(read_fleet(prefix), text);
  if (!reply) return;
  if (!reply->held) return;
  const auto fleet = decode_fleet(prefix, *reply);
  if (!fleet) {
    FARPAGE_CHECK(!fleet.error().message.empty());
    return;
  }
  const Epoch& epoch = fleet->registered.epoch;
  if (fleet->epoch_revision != 0) FARPAGE_CHECK(validate(epoch).has_value());
  if (fleet->epoch_revision == 0) FARPAGE_CHECK(epoch.number == 0);
}

// What is known afterwards is a fleet as it may stand in etcd.
void read_changes_from(std::string_view text) {
  const std::string prefix = "/farpage/x/";
  FleetRecord known;
  known.revision = 5;
  known.terms = Terms{2000, 4096, 2, 0, 7};
  const auto reply = decode_transaction(read_changes(prefix, known), text);
  if (!reply) return;
  const auto fleet = apply_changes(prefix, known, *reply);
  if (!fleet) {
    FARPAGE_CHECK(!fleet.error().message.empty());
    return;
  }
  FARPAGE_CHECK(fleet->terms == known.terms);
  FARPAGE_CHECK(std::ranges::is_sorted(fleet->nodes, {}, &NodeRecord::name));
  if (fleet->epoch_revision != 0) FARPAGE_CHECK(validate(fleet->registered.epoch).has_value());
}

// A record, as it stands in etcd.
void read_record(size_t place, std::string_view value) {
  const std::string prefix = "/farpage/x/";
  TransactionReply reply;
  reply.held = true;
  reply.found.resize(5);
  const std::string keys[] = {terms_key(prefix), epoch_key(prefix), confirmed_key(prefix, 5),
                              node_key(prefix, "a")};
  reply.found[place].push_back({keys[place], std::string(value), 7, 0});
  const auto fleet = decode_fleet(prefix, reply);
  if (!fleet) FARPAGE_CHECK(fleet.error().message.find(keys[place]) != std::string::npos);
  if (fleet && place == 1) {
    // A written record is read as the same.
    reply.found[1][0].value = encode(fleet->registered.epoch);
    const auto again = decode_fleet(prefix, reply);
    FARPAGE_CHECK(again && again->registered.epoch == fleet->registered.epoch);
  }
}

}  // namespace
}  // namespace farpage::etcd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage::etcd;
  if (bytes == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  switch (data[0]) {
    case '0':
      read_fleet_from(text);
      break;
    case '1':
      (void)decode_grant(text);
      break;
    case '2':
      (void)decode_keep_alive(text);
      break;
    case '3':
      (void)decode_watch(text);
      break;
    case '4':
      (void)decode_token(text);
      break;
    case '5':
      FARPAGE_CHECK(!decode_error(500, text).message.empty());
      break;
    case '6':
      read_record(0, text);
      break;
    case '7':
      read_record(1, text);
      break;
    case '8':
      read_record(2, text);
      break;
    case '9':
      read_record(3, text);
      break;
    case 'a':
      read_changes_from(text);
      break;
    default:
      break;
  }
  return 0;
}
