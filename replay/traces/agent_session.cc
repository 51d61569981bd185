#include "replay/traces/agent_session.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "replay/traces/trace_json.h"

namespace farpage {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr double kMostSeconds = 1e12;
constexpr uint64_t kMaxBlockTokens = 1 << 20;

// A field that is null is as one that is not there.
std::optional<element> field_of(const object& from, const char* name) {
  element field;
  if (from[name].get(field) != simdjson::SUCCESS || field.is_null()) return std::nullopt;
  return field;
}

std::optional<std::string> text_of(const object& from, const char* name) {
  const auto field = field_of(from, name);
  std::string_view text;
  if (!field || field->get_string().get(text) != simdjson::SUCCESS) return std::nullopt;
  return std::string(text);
}

bool is_subagent(const object& entry) {
  return text_of(entry, "type") == "subagent" ||
         (field_of(entry, "requests") && !field_of(entry, "hash_ids"));
}

Result<array> requests_of(const object& from) {
  array requests;
  if (from["requests"].get_array().get(requests) == simdjson::SUCCESS) return requests;
  return fail(Code::kInvalid, "requests is missing, or no array");
}

Result<std::optional<double>> seconds_of(const object& entry) {
  const auto field = field_of(entry, "t");
  if (!field) return std::nullopt;
  double seconds = -1;
  if (field->get_double().get(seconds) == simdjson::SUCCESS && seconds >= 0 &&
      seconds <= kMostSeconds) {
    return seconds;
  }
  return fail(Code::kInvalid,
              fmt::format("t is no number of seconds from 0 on: {:.40}", simdjson::minify(*field)));
}

// The finalizer of splitmix64: no two ids of one scope become one.
uint64_t mixed(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// The owner of the requests, and the values that they take from it.
struct Agent {
  double began_s = 0;                // what its requests' times count from
  double now_s = 0;                  // when its last request came
  std::string scope;                 // of its ids
  std::optional<std::string> model;  // where all of its requests are asked of one
  int depth = 0;
};

class SessionReader {
 public:
  SessionReader(uint32_t number, RequestStore& requests) : number_(number), requests_(requests) {}

  Result<AgentSession> read(const object& session) {
    AgentSession read;
    if (const auto field = field_of(session, "block_size")) {
      const auto tokens = read_number("block_size", *field, kMaxBlockTokens, "tokens");
      if (!tokens) return tl::unexpected(tokens.error());
      if (*tokens == 0) return fail(Code::kInvalid, "block_size is 0: a block has tokens");
      read.block_tokens = *tokens;
    }
    const auto requests = requests_of(session);
    if (!requests) return tl::unexpected(requests.error());
    Agent agent;
    const auto scope = field_of(session, "hash_id_scope");
    if (scope && text_of(session, "hash_id_scope") == "global") {
      agent.scope = "global";
    } else if (!scope || text_of(session, "hash_id_scope") == "local") {
      agent.scope = fmt::format("session {}", number_);
    } else {
      return fail(Code::kInvalid,
                  fmt::format("hash_id_scope is {:.40}; \"local\" and \"global\" are known",
                              simdjson::minify(*scope)));
    }
    agent.model = only_model(session);
    counts_from_agent_ = has_request_before_its_agent(*requests, 0, 0);
    if (auto added = add_all(*requests, agent); !added) return tl::unexpected(added.error());
    read.has_times = has_times_ || !has_requests_;
    return read;
  }

 private:
  static std::optional<std::string> only_model(const object& from) {
    array models;
    std::string_view model;
    const auto field = field_of(from, "models");
    if (!field || field->get_array().get(models) != simdjson::SUCCESS || models.size() != 1 ||
        models.at(0).get_string().get(model) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    return std::string(model);
  }

  // Some producers count the times of an agent's requests from where it began, and others from
  // where the session did. In the latter none is before its agent.
  static bool has_request_before_its_agent(const array& entries, double agent_s, int depth) {
    if (depth > kMostNestedAgents) return false;
    for (const element each : entries) {
      object entry;
      if (each.get_object().get(entry) != simdjson::SUCCESS) continue;
      const auto seconds = seconds_of(entry);
      if (!seconds) continue;
      if (*seconds && **seconds < agent_s) return true;
      if (!is_subagent(entry)) continue;
      const auto nested = requests_of(entry);
      if (nested && has_request_before_its_agent(*nested, seconds->value_or(0), depth + 1)) {
        return true;
      }
    }
    return false;
  }

  Result<void> add_all(const array& entries, Agent& agent) {
    double last_s = 0;  // as they are written
    size_t place = 0;
    uint32_t turn = 0;
    std::optional<size_t> before;
    for (const element each : entries) {
      ++place;
      const auto refuse = [&](const std::string& why) {
        return fail(Code::kInvalid, fmt::format("request {}: {}", place, why));
      };
      object entry;
      if (each.get_object().get(entry) != simdjson::SUCCESS) return refuse("it is no object");
      const auto seconds = seconds_of(entry);
      if (!seconds) return refuse(seconds.error().message);
      if (*seconds) {
        if (**seconds < last_s) return refuse("it is earlier than the one before");
        last_s = **seconds;
        agent.now_s = agent.began_s + last_s;
        has_times_ = true;
      }
      if (is_subagent(entry)) {
        if (auto added = add_agent(entry, agent); !added) return refuse(added.error().message);
        continue;
      }
      auto request = read_request(entry, agent);
      if (!request) return refuse(request.error().message);
      request->turn = turn++;
      has_requests_ = true;
      before = requests_.add(std::move(*request), before);
    }
    return {};
  }

  Result<void> add_agent(const object& entry, const Agent& parent) {
    if (parent.depth == kMostNestedAgents) {
      return fail(Code::kInvalid, fmt::format("more than {} agents stand one in another: that many "
                                              "are read",
                                              kMostNestedAgents));
    }
    const auto requests = requests_of(entry);
    if (!requests) return tl::unexpected(requests.error());
    Agent agent;
    agent.began_s = counts_from_agent_ ? parent.now_s : 0;
    agent.now_s = parent.now_s;
    agent.scope = parent.scope;
    agent.model = field_of(entry, "models") ? only_model(entry) : parent.model;
    agent.depth = parent.depth + 1;
    return add_all(*requests, agent).map_error([](Error error) {
      error.message = "of its agent's, " + error.message;
      return error;
    });
  }

  Result<TraceRequest> read_request(const object& entry, const Agent& agent) const {
    TraceRequest request;
    request.session = number_;
    request.timestamp_ms = agent.now_s * 1'000;
    for (const auto& [name, tokens] :
         {std::pair("in", &request.input_length), std::pair("out", &request.output_length)}) {
      const auto field = field_of(entry, name);
      if (!field) continue;
      const auto number = read_number(name, *field, INT64_MAX, "tokens");
      if (!number) return tl::unexpected(number.error());
      *tokens = *number;
    }
    const auto ids = field_of(entry, "hash_ids");
    if (!ids) return fail(Code::kInvalid, "hash_ids is missing, which tells its pages");
    auto read = read_hash_ids(*ids);
    if (!read) return tl::unexpected(read.error());
    request.hash_ids = std::move(*read);
    // Two models share no page, whatever they are asked.
    const std::string model = text_of(entry, "model").value_or(agent.model.value_or(""));
    const uint64_t scope = id_of_text(fmt::format("{} of {}", agent.scope, model));
    for (uint64_t& id : request.hash_ids) id = mixed(id ^ scope);
    return request;
  }

  const uint32_t number_;
  RequestStore& requests_;
  bool counts_from_agent_ = false;
  bool has_times_ = false;
  bool has_requests_ = false;
};

}  // namespace

Result<AgentSession> add_agent_session(element session, uint32_t number, RequestStore& requests) {
  object fields;
  if (session.get_object().get(fields) != simdjson::SUCCESS) {
    return fail(Code::kInvalid, "it is no session, which is an object with requests");
  }
  if (field_of(fields, "hash_ids") && !field_of(fields, "requests")) {
    return fail(Code::kInvalid,
                "this is a request, and no session with requests: add --format mooncake");
  }
  return SessionReader(number, requests).read(fields);
}

}  // namespace farpage
