#include "doctor/host/gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/doctor/made_up_host.h"
#include "transport/cuda/page_kernels.h"

namespace farpage::doctor {
namespace {

using testing::HasSubstr;

constexpr const char* kNoLibrary = "libcuda-that-is-not-there.so";

class DoctorGpu : public testing::Test {
 protected:
  Finding driver(const char* library = kNoLibrary) const {
    return check_gpu_driver(read_gpus(host_.files(), library), kUser);
  }
  std::string path(const char* library) const {
    return check_gpu_path(read_gpus(host_.files(), library), kUser).text;
  }
  static void expect(const Finding& finding, const char* words, const char* command) {
    EXPECT_EQ(finding.level, Level::kWarning);
    EXPECT_THAT(finding.text, HasSubstr(words));
    EXPECT_EQ(finding.command, command);
  }
  void put_card() {
    host_.put("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
        .put("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  }
  void put_driver() {
    host_.put("/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Tue Mar 5\n");
  }

  MadeUpHost host_;
};

TEST_F(DoctorGpu, AHostWithoutOneLacksNothing) {
  host_.put("/sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n")
      .put("/sys/bus/pci/devices/0000:02:00.0/class", "0x020000\n");  // a network card
  EXPECT_EQ(driver().level, Level::kOk);
  EXPECT_THAT(driver().text, HasSubstr("no GPU of NVIDIA's"));
  EXPECT_EQ(driver().command, "");
  EXPECT_THAT(path(kNoLibrary), HasSubstr("none"));
}

TEST_F(DoctorGpu, WhatADriverLacksIsNamed) {
  put_card();
  expect(driver(), "GPUs of NVIDIA's: 1; its driver is not loaded",
         "sudo apt-get install nvidia-driver");
  put_driver();
  expect(driver(), "driver 550.54.15; GPUs: 0", "nvidia-smi");
  host_.put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: x\n")
      .put("/dev/nvidiactl", "");
  expect(driver(), "but no /dev/nvidia0", "sudo nvidia-modprobe -c 0 -u");
}

// As in a container that was given the GPU's files alone.
TEST_F(DoctorGpu, ALibraryThatIsMissingIsNamed) {
  put_driver();
  host_.put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: x\n")
      .put("/dev/nvidia0", "");
  expect(driver(), kNoLibrary, "nvidia-smi");
  EXPECT_THAT(path(kNoLibrary), HasSubstr("none: this process can use no GPU"));
}

TEST_F(DoctorGpu, TheWayOfPagesIsThroughPinnedMemory) {
  EXPECT_EQ(driver(FARPAGE_FAKE_CUDA).level, Level::kOk);
  EXPECT_THAT(driver(FARPAGE_FAKE_CUDA).text, HasSubstr("CUDA's driver works: "));
  EXPECT_THAT(path(FARPAGE_FAKE_CUDA),
              HasSubstr("land in pinned host memory (gpu.bounce_bytes for each GPU) and are copied "
                        "from there, as this host has no RDMA device"));
}

TEST_F(DoctorGpu, TheWayOfPagesIsByTheNetworkCardWhereItKnowsTheGpusMemory) {
  host_.put("/sys/class/infiniband/mlx5_0/node_desc", "x\n");
  GpuFacts facts = read_gpus(host_.files(), FARPAGE_FAKE_CUDA);
  facts.has_kernels = true;
  EXPECT_EQ(facts.with_dma_bufs, 1u);
  Finding found = check_gpu_path(facts, kUser);
  EXPECT_THAT(found.text, HasSubstr("network cards write pages to the GPUs' memory, by dma-buf"));
  EXPECT_EQ(found.level, Level::kOk);
  facts.with_dma_bufs = 0;
  found = check_gpu_path(facts, kUser);
  EXPECT_EQ(found.level, Level::kNote);
  EXPECT_THAT(found.text, HasSubstr("nvidia-peermem is not loaded"));
  EXPECT_EQ(found.command, "sudo modprobe nvidia-peermem");
  host_.put("/sys/module/nvidia_peermem/version", "1\n");
  facts = read_gpus(host_.files(), FARPAGE_FAKE_CUDA);
  facts.has_kernels = true;
  facts.with_dma_bufs = 0;
  EXPECT_THAT(check_gpu_path(facts, kUser).text, HasSubstr("GPUs' memory, by nvidia-peermem"));
  facts.has_kernels = false;
  EXPECT_THAT(check_gpu_path(facts, kUser).text, HasSubstr("as nothing else would check them"));
  facts.has_kernels = true;
  facts.reached = 0;
  EXPECT_THAT(check_gpu_path(facts, kUser).text, HasSubstr("no network card reaches these GPUs"));
}

TEST_F(DoctorGpu, TheWayOfPagesOfANodeHereIsStraightWhereAGpuCanReadThem) {
  EXPECT_THAT(path(FARPAGE_FAKE_CUDA), HasSubstr("shared memory (gpu.straight_bytes)"));
  GpuFacts facts = read_gpus(host_.files(), FARPAGE_FAKE_CUDA);
  facts.read_nodes = 0;
  EXPECT_THAT(check_gpu_path(facts, kUser).text,
              HasSubstr("of a node on this host too: no GPU here"));
}

TEST_F(DoctorGpu, WhetherAGpuChecksWhatIsCopiedToItIsSaid) {
  GpuFacts facts = read_gpus(host_.files(), FARPAGE_FAKE_CUDA);
  EXPECT_EQ(facts.has_kernels, cuda::has_page_kernels());
  facts.has_kernels = true;
  EXPECT_THAT(check_gpu_path(facts, kUser).text,
              HasSubstr("has the kernels by which a GPU checks pages"));
  facts.has_kernels = false;
  EXPECT_THAT(check_gpu_path(facts, kUser).text,
              HasSubstr("built without kernels (-DFARPAGE_CUDA=on)"));
}

TEST_F(DoctorGpu, GpusThatAreHiddenAreNamed) {
  put_driver();
  host_.put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: x\n")
      .put("/dev/nvidia0", "");
  GpuFacts facts = read_gpus(host_.files(), FARPAGE_FAKE_CUDA);
  facts.devices.clear();
  expect(check_gpu_driver(facts, kUser), "CUDA_VISIBLE_DEVICES may hide them",
         "env -u CUDA_VISIBLE_DEVICES farpage doctor");
}

}  // namespace
}  // namespace farpage::doctor
