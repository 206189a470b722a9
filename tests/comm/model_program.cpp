#include "comm/model_program.h"

#include <iterator>
#include <utility>

namespace megaflux::test {
namespace {

constexpr const char* kOpNames[] = {
    "write data",     "reset flags", "post payload", "post flag",     "wait entry",
    "read entries",   "clear",       "post entered", "wait entered",  "post joined",
    "wait joined",    "pull",        "add",          "wait count",    "post comm_done",
    "wait comm_done", "post pulled", "wait pulled",  "add unawaited", "arrive",
    "meet",           "restart",     "abort",        "tell counts",   "wait counts"};

class ProgramBuilder {
 public:
  ProgramBuilder(const ModelConfig& config, int rank, int role)
      : config_(config), rank_(rank), role_(role) {}
  Program build();

 private:
  bool is(Mutation mutation) const { return config_.mutation == mutation; }
  bool is_idle() const { return rank_ == config_.idle_rank; }
  void add(Op op, int peer = -1) { program_.push_back({op, launch_, peer}); }
  void add_for_peers(Op op) {
    for (int i = 1; i < config_.num_ranks; ++i) add(op, (rank_ + i) % config_.num_ranks);
  }
  bool keeps_bank() const;
  void add_compute();
  void add_comm();
  void add_entry();
  void add_posts();
  void add_moves();
  void add_exit();
  void add_meeting();
  void add_recover();
  void add_late();

  const ModelConfig& config_;
  int rank_;
  int role_;
  int launch_ = 0;
  Program program_;
};

bool ProgramBuilder::keeps_bank() const {
  const bool is_refused = config_.launches[launch_ - 1] == LaunchKind::kRefused;
  return is(Mutation::kNoClear) || is(Mutation::kClearBeforeEntryWait) ||
         is(Mutation::kClearAfterWork) || (is(Mutation::kRefusedLaunchKeepsBank) && is_refused);
}

void ProgramBuilder::add_posts() {
  for (int i = 1; i < config_.num_ranks; ++i) {
    const int peer = (rank_ + i) % config_.num_ranks;
    const bool is_flag_first = is(Mutation::kFlagBeforePayload);
    add(is_flag_first ? Op::kPostFlag : Op::kPostPayload, peer);
    add(is_flag_first ? Op::kPostPayload : Op::kPostFlag, peer);
  }
}

void ProgramBuilder::add_entry() {
  if (config_.num_roles == 2 && launch_ > 1 && !is(Mutation::kEntryIgnoresComm)) {
    add(Op::kWaitJoined);
  }
  const bool is_head = config_.launches[launch_ - 1] == LaunchKind::kHead;
  if (!(is_idle() && is(Mutation::kIdleRankSkipsEntry))) add_posts();
  if (is_head) add_for_peers(Op::kTellCounts);  // as early as a head on a device may
  if (is(Mutation::kClearBeforeEntryWait)) add(Op::kClear);
  if (!is(Mutation::kNoEntryWait)) {
    add_for_peers(Op::kWaitEntry);
    add(Op::kReadEntries);
  }
  if (!keeps_bank()) add(Op::kClear);
  if (config_.num_roles == 2) add(Op::kPostEntered);
  if (is_head) add_for_peers(Op::kWaitCounts);
}

void ProgramBuilder::add_moves() {
  if (is_idle()) return;
  add_for_peers(Op::kPull);
  add_for_peers(Op::kAdd);
  add_for_peers(Op::kPull);  // weights: no add tells their owner
}

void ProgramBuilder::add_exit() {
  if (config_.num_roles == 2 && !is(Mutation::kExitIgnoresComm)) add(Op::kWaitCommDone);
  const bool is_skipped = is_idle() && is(Mutation::kIdleRankSkipsPulled);
  if (!is_skipped && !is(Mutation::kPulledBeforePulls)) add_for_peers(Op::kPostPulled);
  if (!is(Mutation::kNoExitWait)) add_for_peers(Op::kWaitPulled);
  if (is(Mutation::kClearAfterWork)) add(Op::kClear);
}

void ProgramBuilder::add_meeting() {
  add(Op::kArrive);
  add_for_peers(Op::kMeet);
}

void ProgramBuilder::add_recover() {
  if (!is(Mutation::kRestartWhilePeersRun)) add_meeting();
  add(Op::kRestart);
  if (!is(Mutation::kLaunchWhilePeersReset)) add_meeting();
}

// Nobody reads `data` in a launch that its rank has given up, so it is not written.
void ProgramBuilder::add_late() {
  if (launch_ == 1) {
    add(Op::kWriteData);
    add_posts();
    if (config_.launches[0] == LaunchKind::kHead) add_for_peers(Op::kTellCounts);
    add_for_peers(Op::kAbort);
  } else if (is(Mutation::kAbortedRankPosts)) {
    add_posts();
  }
}

void ProgramBuilder::add_compute() {
  if (rank_ == config_.late_rank) {
    add_late();
    return;
  }
  if (config_.launches[launch_ - 1] == LaunchKind::kRecover) {
    add_recover();
    return;
  }
  const bool is_work = config_.launches[launch_ - 1] == LaunchKind::kWork;
  if (is_work) add(Op::kWriteData);
  if (is(Mutation::kFlagsResetAtLaunch)) add(Op::kResetFlags);
  add_entry();
  if (!is_work) return;
  if (is(Mutation::kPulledBeforePulls)) add_for_peers(Op::kPostPulled);
  if (config_.num_roles == 1) add_moves();
  add(Op::kWaitCount);
  add_exit();
  // As a signal that frees the last place of a ring: the protocol allows it, so its clear must be
  // safe too.
  if (!is_idle()) add_for_peers(Op::kAddUnawaited);
}

void ProgramBuilder::add_comm() {
  if (!is(Mutation::kCommIgnoresEntry)) {
    add(Op::kWaitEntered);
    add(Op::kReadEntries);
  }
  add(Op::kPostJoined);
  if (config_.launches[launch_ - 1] != LaunchKind::kWork) return;
  add_moves();
  add(Op::kPostCommDone);
}

Program ProgramBuilder::build() {
  for (launch_ = 1; launch_ <= static_cast<int>(config_.launches.size()); ++launch_) {
    role_ == 0 ? add_compute() : add_comm();
  }
  return std::move(program_);
}

}  // namespace

Program make_program(const ModelConfig& config, int rank, int role) {
  return ProgramBuilder(config, rank, role).build();
}

std::string words_of(int rank, int role, const Step& step) {
  std::string words = "rank " + std::to_string(rank);
  words += role == 0 ? " compute" : " comm";
  words += ", launch " + std::to_string(step.launch) + ": ";
  words += kOpNames[static_cast<int>(step.op)];
  if (step.peer >= 0) words += ", peer " + std::to_string(step.peer);
  return words;
}

std::string_view mutation_name(Mutation mutation) {
  constexpr std::string_view kNames[] = {"none",
                                         "no_entry_wait",
                                         "no_exit_wait",
                                         "pulled_before_pulls",
                                         "flag_before_payload",
                                         "one_entry_bank",
                                         "one_counter_bank",
                                         "no_clear",
                                         "clear_before_entry_wait",
                                         "clear_after_work",
                                         "refused_launch_keeps_bank",
                                         "unsigned_compare",
                                         "flags_reset_at_launch",
                                         "idle_rank_skips_entry",
                                         "idle_rank_skips_pulled",
                                         "exit_ignores_comm",
                                         "comm_ignores_entry",
                                         "entry_ignores_comm",
                                         "restart_while_peers_run",
                                         "launch_while_peers_reset",
                                         "aborted_rank_posts",
                                         "one_counts_bank"};
  static_assert(std::size(kNames) == static_cast<size_t>(Mutation::kCount));
  return kNames[static_cast<size_t>(mutation)];
}

}  // namespace megaflux::test
