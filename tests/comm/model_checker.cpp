#include "comm/model_checker.h"

#include <array>
#include <cstring>
#include <unordered_map>

#include "comm/model_program.h"

namespace megaflux::test {
namespace {

constexpr int kMaxRanks = 3;
constexpr int kMaxRoles = 2;

// What one rank's heap holds. `launch` numbers are ghosts of real contents; epochs are modulo
// kEpochs.
struct Memory {
  uint8_t data;
  std::array<std::array<uint8_t, kMaxRanks>, 2> entry_epoch;
  std::array<std::array<uint8_t, kMaxRanks>, 2> entry_payload;
  std::array<std::array<uint8_t, kMaxRanks>, 2> counts;  // epochs
  std::array<uint8_t, kMaxRanks> pulled;
  std::array<uint8_t, 2> counter;
  uint8_t entered, joined, comm_done;
  uint8_t meetings;
  uint8_t abort;
};

struct State {
  std::array<std::array<uint8_t, kMaxRoles>, kMaxRanks> pc;
  std::array<std::array<uint8_t, kMaxRoles>, kMaxRanks> has_given_up;  // at its pc, for good
  std::array<Memory, kMaxRanks> memory;
  friend bool operator==(const State& a, const State& b) {
    return std::memcmp(&a, &b, sizeof(State)) == 0;
  }
};
static_assert(sizeof(Memory) == 1 + 18 + 3 + 2 + 3 + 2 && alignof(State) == 1,
              "no padding to compare");

struct StateHash {
  size_t operator()(const State& state) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&state), sizeof(State)});
  }
};

class Model {
 public:
  explicit Model(const ModelConfig& config) : config_(config) {
    for (int rank = 0; rank < config.num_ranks; ++rank) {
      for (int role = 0; role < config.num_roles; ++role)
        programs_[rank][role] = make_program(config, rank, role);
    }
  }
  ModelResult explore();

 private:
  bool is(Mutation mutation) const { return config_.mutation == mutation; }
  bool is_idle(int rank) const { return rank == config_.idle_rank; }
  uint8_t epoch_of(int launch) const {
    return static_cast<uint8_t>((config_.start_epoch + launch) % kEpochs);
  }
  int entry_bank(int launch) const { return is(Mutation::kOneEntryBank) ? 0 : launch % 2; }
  int counter_bank(int launch) const { return is(Mutation::kOneCounterBank) ? 0 : launch % 2; }
  int counts_bank(int launch) const { return is(Mutation::kOneCountsBank) ? 0 : launch % 2; }
  // Differs from launch to launch, as targets that depend on the plan do.
  static int amount_of(int launch) { return 1 + launch % 2; }
  bool is_reached(int seen, int expected) const {
    if (is(Mutation::kUnsignedCompare)) return seen >= expected;
    return (seen - expected + kEpochs) % kEpochs < kEpochs / 2;
  }

  State initial() const;
  bool can_move(const State& state, int rank, const Step& step) const;
  // The violation that the step shows, if any; changes the state.
  const char* apply(State& state, int rank, const Step& step) const;
  void post(State& state, int rank, const Step& step) const;
  const char* clear(State& state, int rank, const Step& step) const;
  const char* restart(State& state, int rank, const Step& step) const;
  void set_epochs(Memory& memory, int launch) const;
  bool has_added(const State& state, int rank, int peer, int launch, bool wants_all) const;
  bool has_ended(const State& state) const;

  ModelConfig config_;
  std::array<std::array<Program, kMaxRoles>, kMaxRanks> programs_;
};

State Model::initial() const {
  State state = {};
  for (Memory& memory : state.memory) set_epochs(memory, 0);
  return state;
}

void Model::set_epochs(Memory& memory, int launch) const {
  const uint8_t epoch = epoch_of(launch);
  memory.entered = memory.joined = memory.comm_done = epoch;
  memory.pulled.fill(epoch);
  for (auto& bank : memory.entry_epoch) bank.fill(epoch);
  for (auto& bank : memory.counts) bank.fill(epoch);
}

bool Model::can_move(const State& state, int rank, const Step& step) const {
  const Memory& own = state.memory[rank];
  const int epoch = epoch_of(step.launch);
  switch (step.op) {
    case Op::kWaitEntry:
      return is_reached(own.entry_epoch[entry_bank(step.launch)][step.peer], epoch);
    case Op::kWaitCounts:
      return own.counts[counts_bank(step.launch)][step.peer] == epoch;
    case Op::kWaitEntered:
      return is_reached(own.entered, epoch);
    case Op::kWaitJoined:
      return is_reached(own.joined, epoch_of(step.launch - 1));
    case Op::kWaitCommDone:
      return is_reached(own.comm_done, epoch);
    case Op::kWaitPulled:
      return is_reached(own.pulled[step.peer], epoch);
    case Op::kMeet:
      return state.memory[step.peer].meetings >= own.meetings;
    case Op::kWaitCount: {
      int num_adders = 0;
      for (int peer = 0; peer < config_.num_ranks; ++peer) {
        num_adders += peer != rank && !is_idle(peer);
      }
      return own.counter[counter_bank(step.launch)] >= num_adders * amount_of(step.launch);
    }
    default:
      return true;
  }
}

// Whether `peer` has made its adds of `launch` to `rank`: all of them, or at least one.
bool Model::has_added(const State& state, int rank, int peer, int launch, bool wants_all) const {
  for (int role = 0; role < config_.num_roles; ++role) {
    const Program& program = programs_[peer][role];
    for (size_t i = 0; i < program.size(); ++i) {
      const Step& step = program[i];
      const bool is_add = step.op == Op::kAdd || step.op == Op::kAddUnawaited;
      if (!is_add || step.launch != launch || step.peer != rank) continue;
      const bool is_done = i < state.pc[peer][role];
      if (is_done != wants_all) return is_done;
    }
  }
  return wants_all;
}

const char* Model::clear(State& state, int rank, const Step& step) const {
  // The bank was last used by the launch before and will be used by the next one.
  for (int peer = 0; peer < config_.num_ranks; ++peer) {
    if (peer == rank) continue;
    if (!has_added(state, rank, peer, step.launch - 1, true)) {
      return "a counter is cleared while a peer may still add to it";
    }
    if (has_added(state, rank, peer, step.launch + 1, false)) {
      return "a counter is cleared after a peer has added to it for the next launch";
    }
  }
  state.memory[rank].counter[counter_bank(step.launch + 1)] = 0;
  return nullptr;
}

const char* Model::restart(State& state, int rank, const Step& step) const {
  const char* const violation = clear(state, rank, step);
  state.memory[rank].counter.fill(0);
  set_epochs(state.memory[rank], step.launch);
  return violation;
}

void Model::post(State& state, int rank, const Step& step) const {
  const uint8_t epoch = epoch_of(step.launch);
  Memory& own = state.memory[rank];
  Memory& other = state.memory[step.peer < 0 ? rank : step.peer];
  switch (step.op) {
    case Op::kPostPayload:
      other.entry_payload[entry_bank(step.launch)][rank] = static_cast<uint8_t>(step.launch);
      break;
    case Op::kPostFlag:
      other.entry_epoch[entry_bank(step.launch)][rank] = epoch;
      break;
    case Op::kTellCounts:
      other.counts[counts_bank(step.launch)][rank] = epoch;
      break;
    case Op::kPostPulled:
      other.pulled[rank] = epoch;
      break;
    case Op::kPostEntered:
      own.entered = epoch;
      break;
    case Op::kPostJoined:
      own.joined = epoch;
      break;
    case Op::kPostCommDone:
      own.comm_done = epoch;
      break;
    case Op::kArrive:
      ++own.meetings;
      break;
    case Op::kAbort:
      other.abort = 1;
      break;
    case Op::kWriteData:
      own.data = static_cast<uint8_t>(step.launch);
      break;
    case Op::kResetFlags:
      for (auto& bank : own.entry_epoch) bank.fill(epoch_of(0));
      own.pulled.fill(epoch_of(0));
      break;
    case Op::kAdd:
    case Op::kAddUnawaited:
      other.counter[counter_bank(step.launch)] += static_cast<uint8_t>(amount_of(step.launch));
      break;
    default:
      break;
  }
}

const char* Model::apply(State& state, int rank, const Step& step) const {
  const Memory& own = state.memory[rank];
  switch (step.op) {
    case Op::kClear:
      return clear(state, rank, step);
    case Op::kRestart:
      return restart(state, rank, step);
    case Op::kReadEntries:
      for (int peer = 0; peer < config_.num_ranks; ++peer) {
        if (peer == rank) continue;
        if (own.entry_payload[entry_bank(step.launch)][peer] != step.launch) {
          return "an entry of another launch is read";
        }
      }
      return nullptr;
    case Op::kPull:
      return state.memory[step.peer].data == step.launch ? nullptr
                                                         : "data of another launch is pulled";
    case Op::kWaitCount:
      for (int peer = 0; peer < config_.num_ranks; ++peer) {
        if (peer == rank || is_idle(peer)) continue;
        if (!has_added(state, rank, peer, step.launch, false)) {
          return "a counter reached its target before every peer had added";
        }
      }
      return nullptr;
    default:
      post(state, rank, step);
      return nullptr;
  }
}

bool Model::has_ended(const State& state) const {
  for (int rank = 0; rank < config_.num_ranks; ++rank) {
    for (int role = 0; role < config_.num_roles; ++role) {
      const bool is_done = state.pc[rank][role] == programs_[rank][role].size();
      if (!is_done && state.has_given_up[rank][role] == 0) return false;
    }
  }
  return true;
}

ModelResult Model::explore() {
  struct Origin {
    int64_t parent;
    int rank, role;
  };
  std::unordered_map<State, int64_t, StateHash> ids;
  std::vector<const State*> states;
  std::vector<Origin> origins;
  const auto visit = [&](const State& state, const Origin& origin) {
    const auto [it, is_new] = ids.emplace(state, static_cast<int64_t>(states.size()));
    if (!is_new) return;
    states.push_back(&it->first);  // nodes of the map stay where they are
    origins.push_back(origin);
  };
  const auto result = [&](const char* violation, Origin last) {
    ModelResult found{static_cast<int64_t>(states.size()), violation, {}};
    while (last.parent >= 0) {
      const State& before = *states[last.parent];
      const Step& step = programs_[last.rank][last.role][before.pc[last.rank][last.role]];
      found.trace.insert(found.trace.begin(), words_of(last.rank, last.role, step));
      last = origins[last.parent];
    }
    return found;
  };
  visit(initial(), {-1, 0, 0});
  for (int64_t id = 0; id < static_cast<int64_t>(states.size()); ++id) {
    const State& state = *states[id];
    bool can_any_move = false;
    for (int rank = 0; rank < config_.num_ranks; ++rank) {
      for (int role = 0; role < config_.num_roles; ++role) {
        const Program& program = programs_[rank][role];
        if (state.pc[rank][role] == program.size()) continue;
        if (state.has_given_up[rank][role] != 0) continue;
        const Step& step = program[state.pc[rank][role]];
        const bool is_awaited = !can_move(state, rank, step);
        if (is_awaited && state.memory[rank].abort == 0) continue;
        can_any_move = true;
        State next = state;
        if (is_awaited) {
          next.has_given_up[rank][role] = 1;
        } else {
          const char* const violation = apply(next, rank, step);
          if (violation != nullptr) return result(violation, {id, rank, role});
          ++next.pc[rank][role];
        }
        visit(next, {id, rank, role});
      }
    }
    if (!can_any_move && !has_ended(state)) return result("deadlock", origins[id]);
  }
  return {static_cast<int64_t>(states.size()), "", {}};
}

}  // namespace

ModelResult explore(const ModelConfig& config) {
  return Model(config).explore();
}

}  // namespace megaflux::test
