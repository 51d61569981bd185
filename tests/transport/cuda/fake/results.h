#pragma once

#include "transport/cuda/driver.h"  // kInvalidValue, kNotFound

namespace farpage::cuda {

// Of CUresult: what the fake returns.
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidImage = 200;
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kAlreadyRegistered = 712;
inline constexpr int kNotRegistered = 713;
inline constexpr int kMisalignedAddress = 716;
inline constexpr int kLaunchFailed = 719;
inline constexpr int kNotPermitted = 800;
inline constexpr int kNotSupported = 801;
inline constexpr int kCaptureUnsupported = 900;
inline constexpr int kCaptureInvalidated = 901;

// After these "the context cannot be used" (cuda.h, at each of them).
constexpr bool is_sticky(int result) {
  return result == kIllegalAddress || result == kMisalignedAddress || result == kLaunchFailed;
}

}  // namespace farpage::cuda
