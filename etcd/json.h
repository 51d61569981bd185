#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace farpage::etcd {

std::string to_base64(std::string_view bytes);
// Standard alphabet, padded.
Result<std::string> from_base64(std::string_view text);

// kProtocol: the text is no JSON object, with a word on why.
Result<boost::json::object> parse_object(std::string_view text);

// 64-bit numbers that are no counts: as 16 hexadecimal digits.
std::string to_hex(uint64_t number);

// Reads the fields of an object from a peer. A missing value is empty or zero, as protobuf leaves
// it out; a value of another kind is an error, kept until it is asked for.
class Fields {
 public:
  explicit Fields(const boost::json::object& object) : object_(object) {}

  uint64_t number(std::string_view key);  // also as a string, as etcd writes them
  uint64_t hex(std::string_view key);     // of to_hex
  bool flag(std::string_view key);
  std::string text(std::string_view key);
  std::string bytes(std::string_view key);  // from base64
  boost::json::object object(std::string_view key);
  boost::json::array array(std::string_view key);

  // The first; empty: none.
  const std::string& error() const { return error_; }

 private:
  const boost::json::value* find(std::string_view key) const;
  void refuse(std::string_view key, const char* what);

  const boost::json::object& object_;
  std::string error_;
};

}  // namespace farpage::etcd
