#include "tier/fetch/index_reads.h"

#include <algorithm>

#include "base/check.h"

namespace farpage {

IndexReads::IndexReads() : reads_(kPlaces) {
  free_.reserve(kPlaces);
  ended_.reserve(kPlaces);
  for (uint16_t place = kPlaces; place-- > 0;) free_.push_back(place);
  active_.reserve(kQuestions);
  unused_.reserve(kQuestions);
  for (size_t i = 0; i < kQuestions; ++i) {
    questions_.push_back(std::make_unique<QuestionState>());
    unused_.push_back(questions_.back().get());
  }
}

QuestionState* IndexReads::begin(std::span<const PageKey> keys, std::span<KeyAnswer> answers,
                                 uint64_t until_ns, uint64_t fleet_number) {
  FARPAGE_CHECK(keys.size() == answers.size());
  std::ranges::fill(answers, KeyAnswer::kUnknown);
  if (unused_.empty()) {
    questions_.push_back(std::make_unique<QuestionState>());
    unused_.push_back(questions_.back().get());
  }
  QuestionState* question = unused_.back();
  unused_.pop_back();
  *question = {keys, answers, until_ns, fleet_number};
  active_.push_back(question);
  return question;
}

void IndexReads::recycle(QuestionState* question) {
  give_up(*question);
  std::erase(active_, question);
  unused_.push_back(question);
}

void IndexReads::give_up(QuestionState& question) {
  question.next = question.keys.size();
  if (question.under_way == 0) return;
  for (IndexRead& read : reads_) {
    if (read.question == &question) read.question = nullptr;
  }
  question.under_way = 0;
}

void IndexReads::drop_done() {
  std::erase_if(active_, [](const QuestionState* question) { return question->done(); });
}

uint16_t IndexReads::take(QuestionState& question, LanePeer& peer, uint8_t operations,
                          uint64_t now_ns, uint32_t step) {
  const uint16_t place = free_.back();
  free_.pop_back();
  const auto outstanding = static_cast<uint8_t>((1u << operations) - 1);
  reads_[place] = {&question, &peer, question.next++, now_ns, step, operations, outstanding, false};
  ++question.under_way;
  return place;
}

bool IndexReads::operation_ended(uint16_t place, const OperationTag& tag, bool is_good) {
  IndexRead& read = reads_[place];
  if (read.step != tag.step || (read.outstanding & tag.part) == 0) return false;
  read.broken |= !is_good;
  read.outstanding &= static_cast<uint8_t>(~tag.part);
  if (read.outstanding == 0) ended_.push_back(place);
  return true;
}

void IndexReads::operations_ended(const LanePeer& peer) {
  for (uint16_t place = 0; place < kPlaces; ++place) {
    IndexRead& read = reads_[place];
    if (read.peer != &peer || read.outstanding == 0) continue;
    read.broken = true;
    read.outstanding = 0;
    ended_.push_back(place);
  }
}

void IndexReads::free_ended() {
  for (const uint16_t place : ended_) {
    IndexRead& read = reads_[place];
    if (read.question != nullptr) --read.question->under_way;
    read.question = nullptr;
    read.peer = nullptr;
    free_.push_back(place);
  }
  ended_.clear();
}

}  // namespace farpage
