// Writes the seeds of control_fuzz into a folder: control_seeds FOLDER
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "control/codec.h"

namespace farpage {
namespace {

std::string frame(const std::string& body, uint32_t descriptors = 0) {
  const std::array<uint32_t, 3> header = {0x31435046, static_cast<uint32_t>(body.size()),
                                          descriptors};
  return std::string(reinterpret_cast<const char*>(header.data()), sizeof header) + body;
}

std::string request(Request request) {
  return encode(NumberedRequest{1, std::move(request)}).body;
}
std::string reply(Reply reply) {
  return encode(NumberedReply{1, std::move(reply)}).body;
}

bool write(const std::string& folder, const char* name, char target, const std::string& bytes) {
  std::ofstream file(folder + "/" + name, std::ios::binary);
  file << target << bytes;
  return file.good();
}

bool write_all(const std::string& folder) {
  const HelloRequest hello = {kControlProtocol, kPageFormat, 65536};
  const CommitRequest commit = {257, 1'000'000, {{{1, 2}, 0, 4096, 7}, {{3, 4}, 4096, 4096, 8}}};
  OpenLaneReply lane;
  lane.lane = 3;
  lane.read_offer.opaque = "read";
  lane.pool = {1 << 20, Access::kRemoteRead, {}, "pool", {}};
  HelloReply greeting = {1,  2,    3, 4, 5, 4096, 64, 12, {ChannelPurpose::kStage, "offer", {}},
                         {}, "shm"};
  greeting.newest_epoch = 13;
  StatusReply status = {"shm", "path", 1, 2, 3, 4, 5};
  status.verdicts = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  status.sees_traffic = true;
  status.traffic = {{"path", 1, 2, 3, 4, 5, 6}};
  status.ports = {{"port", 1, 2, 3, 4, {5, 6, {}, 7}}};
  status.pushes = {1, 2, 3, 4, 5, 6};
  OpenPushRequest open_push = {5, {ChannelPurpose::kStage, "offer", {}}, {}};
  open_push.landing = {1 << 20, Access::kRemoteWrite, {}, "landing", {}};
  const PushRequest push = {6, 257, 2, 1'000'000, {{{1, 2}, 0}, {{3, 4}, 1}, {{5, 6}, 2}}};
  const ReplicateRequest replicate = {{5, 6}, {{{{1, 2}, 3, 4, 5, false}, true}}, 1'000'000};
  const HoldingsRequest holdings = {{5, 6}, {{1, 2}}, 7, 4};
  const std::string many = frame(request(hello)) + frame(request(OpenLaneRequest{})) +
                           frame(request(commit)) + frame(request(StatusRequest{}));
  return write(folder, "request_hello", 0, request(hello)) &&
         write(folder, "request_open_lane", 0, request(OpenLaneRequest{4})) &&
         write(folder, "request_commit", 0, request(commit)) &&
         write(folder, "request_remove", 0,
               request(RemoveRequest{{{1, 2}, {3, 4}}, {}, 1'000'000})) &&
         write(folder, "request_renew", 0, request(RenewRequest{9, {1, 2, 3, 4, 5, 6, 7, 8, 9}})) &&
         write(folder, "request_open_push", 0, request(std::move(open_push))) &&
         write(folder, "request_push", 0, request(push)) &&
         write(folder, "request_replicate", 0, request(replicate)) &&
         write(folder, "request_holdings", 0, request(holdings)) &&
         write(folder, "request_report", 0, request(ReportRequest{{{1, 2}}})) &&
         write(folder, "reply_replicate", 1, reply(ReplicateReply{{Code::kOk, Code::kAborted}})) &&
         write(folder, "reply_holdings", 1,
               reply(HoldingsReply{{{{1, 2}, 3, 4, 5, true}}, 8, true})) &&
         write(folder, "request_epoch", 0, request(EpochRequest{{3, 4}})) &&
         write(folder, "reply_renew", 1, reply(RenewReply{9, {3, 4}, 5})) &&
         write(folder, "reply_epoch", 1,
               reply(EpochReply{{3, 4}, 5, 2, 6, 4096, {{7, 8, true, 12, "host:9"}, {10, 11}}})) &&
         write(folder, "reply_report", 1, reply(ReportReply{1, 13})) &&
         write(folder, "reply_open_push", 1, reply(OpenPushReply{7})) &&
         write(folder, "reply_push", 1, reply(PushReply{{Code::kOk, Code::kNotFound}})) &&
         write(folder, "reply_refusal", 1, reply(Refusal{Code::kExhausted, "full"})) &&
         write(folder, "reply_hello", 1, reply(std::move(greeting))) &&
         write(folder, "reply_open_lane", 1, reply(std::move(lane))) &&
         write(folder, "reply_commit", 1,
               reply(CommitReply{{{Code::kOk, 5}, {Code::kAborted, 0}}})) &&
         write(folder, "reply_status", 1, reply(status)) && write(folder, "node_frames", 2, many) &&
         write(folder, "node_half_frame", 2, many.substr(0, many.size() / 2)) &&
         write(folder, "node_descriptors_that_do_not_come", 2, frame(request(hello), 3)) &&
         write(folder, "node_wrong_magic", 2, "GET / HTTP/1.1\r\n\r\n") &&
         write(folder, "client_frames", 3,
               frame(reply(StatusReply{})) + frame(reply(RemoveReply{2})) +
                   frame(encode(NumberedReply{0, Refusal{Code::kExhausted, "full"}}).body)) &&
         write(folder, "client_huge_length", 3, std::string("FPC1\xFF\xFF\xFF\x7F\0\0\0\0", 12));
}

}  // namespace
}  // namespace farpage

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: control_seeds FOLDER\n");
    return 2;
  }
  return farpage::write_all(arguments[1]) ? 0 : 1;
}
