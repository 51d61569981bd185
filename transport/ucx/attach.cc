#include "transport/ucx/attach.h"

#include <uct/api/uct.h>

#include <span>

namespace farpage::ucx {
namespace {

bool attaches(uct_component_h component, std::string_view packed_name) {
  uct_rkey_bundle_t bundle = {};
  if (uct_rkey_unpack(component, packed_name.data(), &bundle) != UCS_OK) return false;
  uct_rkey_release(component, &bundle);
  return true;
}

}  // namespace

bool can_attach(const std::string& component, std::string_view packed_name) {
  uct_component_h* list = nullptr;
  unsigned count = 0;
  if (uct_query_components(&list, &count) != UCS_OK) return false;
  bool attached = false;
  for (uct_component_h known : std::span(list, count)) {
    uct_component_attr_t attributes = {};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
    if (uct_component_query(known, &attributes) != UCS_OK) continue;
    if (component == attributes.name) attached |= attaches(known, packed_name);
  }
  uct_release_component_list(list);
  return attached;
}

}  // namespace farpage::ucx
