#include "client/gpu/gpu_landing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/log.h"
#include "transport/cuda/copies/landed_checker.h"

namespace farpage {
namespace {

constexpr LandingPlace place_of(cuda::LandingWay way) {
  return way == cuda::LandingWay::kDmaBuf ? LandingPlace::kDmaBuf : LandingPlace::kPeerMemory;
}

}  // namespace

Result<std::unique_ptr<GpuLanding>> GpuLanding::open(
    Client& client, const std::shared_ptr<const cuda::GpuContext>& context,
    const GpuOptions& options, uint64_t bytes) {
  const bool may_choose = options.landing == "auto";
  const bool is_possible = client.capabilities().reaches_devices;
  if (options.landing == "host" || (may_choose && !is_possible)) return nullptr;
  if (!is_possible) {
    return fail(Code::kInvalid,
                fmt::format("gpu.landing is \"{}\", and {} moves pages between host memory "
                            "alone: choose auto or host, or the backend verbs",
                            options.landing, client.capabilities().backend));
  }
  std::vector<std::string> reasons;
  for (const auto way : {cuda::LandingWay::kDmaBuf, cuda::LandingWay::kPeerMemory}) {
    if (!may_choose && options.landing != landing_name(place_of(way))) continue;
    auto opened = open_by(way, client, context, bytes);
    if (opened) {
      log_info(fmt::format("cuda:{}: pages land in the GPU's memory ({})", context->device(),
                           landing_name(place_of(way))));
      return opened;
    }
    if (!may_choose) return opened;
    if (reasons.empty() || reasons.back() != opened.error().message) {
      reasons.push_back(opened.error().message);
    }
  }
  log_warning(fmt::format(
      "cuda:{}: pages land in the host's memory, and are copied from there (gpu.landing): {}",
      context->device(), fmt::join(reasons, "; ")));
  return nullptr;
}

Result<std::unique_ptr<GpuLanding>> GpuLanding::open_by(
    cuda::LandingWay way, Client& client, const std::shared_ptr<const cuda::GpuContext>& context,
    uint64_t bytes) {
  if (!client.verifies()) {
    return fail(Code::kUnavailable,
                "what a network card has written is seen behind the flush of a check, and this "
                "client checks nothing (verify)");
  }
  auto checker = cuda::LandedChecker::make(context);
  if (!checker) return tl::unexpected(checker.error());
  auto memory = cuda::LandingMemory::make(context, bytes, way);
  if (!memory) return tl::unexpected(memory.error());
  const MemoryRange range = memory->range();
  if (auto tried = (*checker)->try_at(reinterpret_cast<uint64_t>(range.data)); !tried) {
    return tl::unexpected(tried.error());
  }
  auto region = client.register_memory(range);
  if (!region) return tl::unexpected(region.error());
  memory->registered();
  return std::unique_ptr<GpuLanding>(new GpuLanding(context->device(), std::move(*checker),
                                                    std::move(*memory), std::move(*region),
                                                    place_of(way)));
}

}  // namespace farpage
