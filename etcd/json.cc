#include "etcd/json.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <boost/json/parse.hpp>
#include <charconv>

namespace farpage::etcd {
namespace {

namespace json = boost::json;

constexpr unsigned kMaxDepth = 16;

template <typename Number>
bool parse_number(std::string_view text, int base, Number& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and a zero behind it
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  if (text.empty()) return std::string();
  const auto refuse = [] { return fail(Code::kProtocol, "something is no base64"); };
  // EVP_DecodeBlock passes over white space, and counts padding as bytes.
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  if (text.size() % 4 != 0 || text.substr(0, text.size() - padding).find_first_not_of(kAlphabet) !=
                                  std::string_view::npos) {
    return refuse();
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  if (length < 0 || static_cast<size_t>(length) < padding) return refuse();
  bytes.resize(static_cast<size_t>(length) - padding);
  return bytes;
}

Result<json::object> parse_object(std::string_view text) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return fail(Code::kProtocol, fmt::format("no JSON: {}", error.message()));
  if (!value.is_object()) return fail(Code::kProtocol, "no JSON object");
  return std::move(value.get_object());
}

std::string to_hex(uint64_t number) {
  return fmt::format("{:016x}", number);
}

const json::value* Fields::find(std::string_view key) const {
  const json::value* value = object_.if_contains({key.data(), key.size()});
  return value == nullptr || value->is_null() ? nullptr : value;
}

void Fields::refuse(std::string_view key, const char* what) {
  if (error_.empty()) error_ = fmt::format("'{}' is no {}", key, what);
}

uint64_t Fields::number(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return 0;
  uint64_t number = 0;
  if (const auto* text = value->if_string()) {
    if (parse_number({text->data(), text->size()}, 10, number)) return number;
  } else if (value->is_uint64()) {
    return value->get_uint64();
  } else if (value->is_int64() && value->get_int64() >= 0) {
    return static_cast<uint64_t>(value->get_int64());
  }
  refuse(key, "number");
  return 0;
}

uint64_t Fields::hex(std::string_view key) {
  const std::string digits = text(key);
  uint64_t number = 0;
  if (!digits.empty() && !parse_number(digits, 16, number)) refuse(key, "hexadecimal number");
  return number;
}

bool Fields::flag(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return false;
  if (value->is_bool()) return value->get_bool();
  refuse(key, "true or false");
  return false;
}

std::string Fields::text(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return {};
  if (const auto* text = value->if_string()) return {text->data(), text->size()};
  refuse(key, "text");
  return {};
}

std::string Fields::bytes(std::string_view key) {
  auto decoded = from_base64(text(key));
  if (decoded) return std::move(*decoded);
  refuse(key, "base64");
  return {};
}

json::object Fields::object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return {};
  if (const auto* object = value->if_object()) return *object;
  refuse(key, "object");
  return {};
}

json::array Fields::array(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return {};
  if (const auto* array = value->if_array()) return *array;
  refuse(key, "list");
  return {};
}

}  // namespace farpage::etcd
