#include "framework/distributed/control.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace longspan {
namespace {

using Clock = std::chrono::steady_clock;

enum Tag : int { ask_tag = 1, answer_tag, claim_tag, decision_tag, taken_tag };

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(500)); }

template <typename T>
void append(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// Reads the encoding of `append`.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  template <typename T>
  T next() {
    T value{};
    if (at_ + sizeof(T) <= bytes_.size()) std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

// Encodes group, question and report.
std::string encode(std::uint64_t group, std::uint64_t question, const RankReport& report) {
  std::string bytes;
  append(bytes, group);
  append(bytes, question);
  append(bytes, static_cast<std::uint64_t>(report.ledger.records.size()));
  for (const LedgerRecord& record : report.ledger.records) append(bytes, record);
  append(bytes, static_cast<std::uint64_t>(report.waiting.size()));
  return bytes + report.waiting;
}

RankReport decode_report(Reader& reader, int rank) {
  RankReport report;
  report.ledger.rank = rank;
  report.ledger.records.resize(reader.next<std::uint64_t>());
  for (LedgerRecord& record : report.ledger.records) record = reader.next<LedgerRecord>();
  report.waiting.resize(reader.next<std::uint64_t>());
  for (char& letter : report.waiting) letter = reader.next<char>();
  return report;
}

}  // namespace

ControlChannel::ControlChannel(MPI_Comm communicator, Describe describe)
    : communicator_(communicator), describe_(std::move(describe)) {
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
}

void ControlChannel::post(int rank, int tag, std::string bytes) {
  Outgoing& message = outgoing_.emplace_back(Outgoing{MPI_REQUEST_NULL, std::move(bytes)});
  MPI_Isend(message.bytes.data(),
            static_cast<int>(message.bytes.size()),
            MPI_BYTE,
            rank,
            tag,
            communicator_,
            &message.request);
}

void ControlChannel::poll() {
  // The first probe may only fetch a message that the second one reports.
  for (int looks = 0; looks < 2;) {
    int waiting = 0;
    MPI_Message message;
    MPI_Status status;
    if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_, &waiting, &message, &status) !=
            MPI_SUCCESS ||
        !waiting) {
      ++looks;
      continue;
    }
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    std::string bytes(static_cast<std::size_t>(count), '\0');
    MPI_Mrecv(bytes.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    handle(status.MPI_SOURCE, status.MPI_TAG, bytes);
  }
  // A message to a rank that has exited stays queued here.
  for (auto message = outgoing_.begin(); message != outgoing_.end();) {
    int complete = 0;
    MPI_Test(&message->request, &complete, MPI_STATUS_IGNORE);
    message = complete ? outgoing_.erase(message) : std::next(message);
  }
}

void ControlChannel::handle(int rank, int tag, const std::string& bytes) {
  silent_.erase(rank);
  Reader reader(bytes);
  if (tag == claim_tag) {
    if (granted_ < 0) granted_ = rank;
    std::string decision;
    append(decision, granted_ == rank);
    return post(rank, decision_tag, std::move(decision));
  }
  if (tag == taken_tag) {
    if (granted_ < 0) granted_ = rank;
    return;
  }
  if (tag == decision_tag) {
    decisions_[rank] = reader.next<bool>();
    return;
  }
  const auto group = reader.next<std::uint64_t>();
  const auto question = reader.next<std::uint64_t>();
  RankReport report = decode_report(reader, rank);
  if (tag == ask_tag) {
    asked_reports_[group][rank] = std::move(report);
    asked_about_.insert(group);
    return post(rank, answer_tag, encode(group, question, describe_(group)));
  }
  if (tag == answer_tag && question == question_) answers_[rank] = std::move(report);
}

ControlChannel::Reports ControlChannel::ask_all(std::uint64_t group,
                                                double limit,
                                                const std::function<bool(const Reports&)>& enough) {
  ++question_;
  answers_.clear();
  const std::string question = encode(group, question_, describe_(group));
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) post(rank, ask_tag, question);
  const auto deadline = after(limit);
  Reports reports;
  bool enough_came = false;
  while (!enough_came && Clock::now() < deadline) {
    poll();
    // A rank that has asked about this group is blocked in it, so its report remains valid.
    reports = answers_;
    reports.insert(asked_reports_[group].begin(), asked_reports_[group].end());
    enough_came = static_cast<int>(reports.size()) == size_ - 1 || enough(reports);
    if (!enough_came) nap();
  }
  silent_.clear();
  for (int rank = 0; rank < size_ && !enough_came; ++rank)
    if (rank != rank_ && !reports.contains(rank)) silent_.insert(rank);
  return reports;
}

bool ControlChannel::claim(double limit) {
  const auto deadline = after(limit);
  poll();
  for (int decider = 0; decider < rank_ && granted_ < 0; ++decider) {
    if (silent_.contains(decider)) continue;
    post(decider, claim_tag, std::string(1, '\0'));
    // A waiting rank answers at once; a computing or stopped one must not delay this rank.
    const auto patience = std::min(deadline, after(0.3));
    while (Clock::now() < patience && !decisions_.contains(decider) && granted_ < 0) {
      nap();
      poll();
    }
    if (granted_ < 0 && decisions_.contains(decider))
      granted_ = decisions_[decider] ? rank_ : decider;
  }
  if (granted_ < 0) granted_ = rank_;
  // Later questions may find no rank to answer, so the decision is sent in advance.
  if (granted_ == rank_)
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) post(rank, taken_tag, std::string(1, '\0'));
  poll();
  return granted_ == rank_;
}

}  // namespace longspan
