#pragma once

#include <boost/json.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "etcd/client.h"
#include "etcd/json.h"
#include "tests/etcd/scripted_etcd.h"

namespace farpage::etcd {

// An etcd that keeps what a test writes, and answers transactions of gets as etcd's
// api/etcdserverpb/rpc.proto says: `min_mod_revision` leaves keys out of `kvs`, not out of `count`.
class StoredEtcd {
 public:
  struct Read {
    std::vector<std::string> keys;  // that were asked for, or what they begin with
    size_t records = 0;             // that the answer has
    bool held = true;
  };

  void put(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    store_[key] = {value, ++revision_};
  }
  void erase(const std::string& key) {
    const std::lock_guard lock(mutex_);
    if (store_.erase(key) != 0) ++revision_;
  }
  // Without another key.
  void set_revision(uint64_t revision) {
    const std::lock_guard lock(mutex_);
    revision_ = revision;
  }
  // From now on it answers without a word on the transaction.
  void say_nothing() {
    const std::lock_guard lock(mutex_);
    says_nothing_ = true;
  }
  // Called behind the next answer, and may write.
  void after_next_read(std::function<void()> then) {
    const std::lock_guard lock(mutex_);
    then_ = std::move(then);
  }
  // Since this was asked last.
  std::vector<Read> take_reads() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reads_, {});
  }
  // Body of the request that began the last watch.
  std::string watched() {
    const std::lock_guard lock(mutex_);
    return watched_;
  }
  Access access(const std::string& prefix) const {
    Access access;
    access.endpoints = {etcd_.endpoint()};
    access.prefix = prefix;
    return access;
  }

 private:
  struct Value {
    std::string bytes;
    uint64_t mod_revision = 0;
  };

  std::string answer(const ScriptedEtcd::Request& request) {
    if (request.path == "/v3/watch") return watch(request.body);
    std::function<void()> then;
    std::string said;
    {
      const std::lock_guard lock(mutex_);
      said = run(boost::json::parse(request.body).as_object());
      then = std::exchange(then_, nullptr);
    }
    if (then) then();
    return ScriptedEtcd::ok(said);
  }

  // Opened, and one event.
  std::string watch(const std::string& body) {
    const std::lock_guard lock(mutex_);
    watched_ = body;
    const std::string head = R"({"result":{"header":{"cluster_id":"1"})";
    return ScriptedEtcd::lines(
        {head + ",\"created\":true}}\n", head + ",\"events\":[{\"kv\":{}}]}}\n"});
  }

  std::string run(const boost::json::object& asked) {
    Read read;
    for (const auto& compare : asked.at("compare").as_array()) {
      const auto found = store_.find(bytes(compare.at("key")));
      const uint64_t now = found == store_.end() ? 0 : found->second.mod_revision;
      read.held = read.held && number(compare.at("mod_revision")) == now;
    }
    boost::json::object reply = {
        {"header", {{"cluster_id", "1"}, {"revision", std::to_string(revision_)}}}};
    if (says_nothing_) return boost::json::serialize(reply);
    if (read.held) reply["succeeded"] = true;
    boost::json::array responses;
    for (const auto& operation : asked.at(read.held ? "success" : "failure").as_array()) {
      boost::json::object response;
      response["response_range"] = range(operation.at("request_range").as_object(), read);
      responses.push_back(std::move(response));
    }
    reply["responses"] = std::move(responses);
    reads_.push_back(std::move(read));
    return boost::json::serialize(reply);
  }

  // What is zero is left out.
  boost::json::object range(const boost::json::object& asked, Read& read) {
    const std::string begin = bytes(asked.at("key"));
    const std::string end =
        asked.contains("range_end") ? bytes(asked.at("range_end")) : begin + '\0';
    const uint64_t least =
        asked.contains("min_mod_revision") ? number(asked.at("min_mod_revision")) : 0;
    read.keys.push_back(begin);
    boost::json::object found;
    boost::json::array kvs;
    uint64_t count = 0;
    for (auto at = store_.lower_bound(begin); at != store_.end() && at->first < end; ++at) {
      ++count;
      if (at->second.mod_revision < least) continue;
      kvs.push_back(boost::json::object{{"key", to_base64(at->first)},
                                        {"value", to_base64(at->second.bytes)},
                                        {"mod_revision", std::to_string(at->second.mod_revision)}});
    }
    read.records += kvs.size();
    if (!kvs.empty()) found["kvs"] = std::move(kvs);
    if (count > 0) found["count"] = std::to_string(count);
    return found;
  }

  static std::string bytes(const boost::json::value& text) {
    return from_base64(text.as_string().c_str()).value();
  }
  static uint64_t number(const boost::json::value& text) {
    return std::stoull(text.as_string().c_str());
  }

  std::mutex mutex_;
  std::map<std::string, Value> store_;
  uint64_t revision_ = 50;
  std::function<void()> then_;
  bool says_nothing_ = false;
  std::vector<Read> reads_;
  std::string watched_;
  ScriptedEtcd etcd_{[this](const auto& request) { return answer(request); }};
};

}  // namespace farpage::etcd
