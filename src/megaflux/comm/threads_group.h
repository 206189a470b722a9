// ThreadsGroup: the `threads` fabric. P ranks of one process, each with its heap and one or two
// persistent threads (its roles); the CPU executor and the protocol tests run on it. Any number of
// groups may live in a process and end in any order.
//
//   Layout layout;
//   const Field<float> x = layout.add<float>("x", 1024);
//   ThreadsGroup group({.num_ranks = 8, .num_roles = 2}, layout);
//   group.run([&](RankContext& ctx) { ... ctx.heap.at(peer, x) ... });
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "megaflux/comm/rank_context.h"
#include "megaflux/comm/signal.h"
#include "megaflux/comm/symmetric_heap.h"

namespace megaflux {

struct ThreadsConfig {
  int32_t num_ranks = 1;      // P, 1 ... 1024
  int32_t num_roles = 1;      // threads a rank: 1 = compute, 2 = compute and comm
  int32_t payload_words = 0;  // words an entry can carry; E for a head
  uint32_t start_epoch = 0;   // tests start near the wrap
  WaitConfig waits = {};
};

class ThreadsGroup {
 public:
  // Allocates the heaps (the layout plus the protocol's words) and starts the threads. Throws
  // kBadInput naming the field, the value and the limit.
  ThreadsGroup(const ThreadsConfig& config, Layout layout);
  ~ThreadsGroup();
  ThreadsGroup(const ThreadsGroup&) = delete;
  ThreadsGroup& operator=(const ThreadsGroup&) = delete;

  int32_t num_ranks() const { return config_.num_ranks; }
  HeapView heap() const { return heap_.view(); }
  const Layout& layout() const { return heap_.layout(); }

  // Calls fn(RankContext&) on every role of every rank and returns when all have ended. The failure
  // that was first is rethrown. AgreedError leaves the group usable; anything else makes the other
  // ranks' waits end with an error that names it, and poisons the group: every run is refused with
  // that message until recover(). One call at a time. No allocation, no thread is created.
  template <typename Fn>
  void run(Fn&& fn) {
    run_task(bind(fn));
  }
  // The same on one role alone, for launches in which the other has nothing to do.
  template <typename Fn>
  void run(Role role, Fn&& fn) {
    Task task = bind(fn);
    task.only_role = static_cast<int32_t>(role);
    run_task(task);
  }

  bool is_poisoned() const;
  // Throws kTimeout with the failure if the group is poisoned: run() would refuse.
  void check_sound() const;
  // The failure that poisoned the group; empty if it is not poisoned.
  std::string failure_text() const;
  // Collective over all ranks: signals back to "nothing launched", epochs 2^16 ahead of the
  // furthest rank, so that no word of an old launch can end a new wait. Also allowed on a sound
  // group.
  void recover();

  // Random delays around every signal from the next run on; nullopt = off.
  void set_delay_fuzz(std::optional<uint64_t> seed);

 private:
  struct Task {
    void (*call)(void* fn, RankContext& ctx) = nullptr;
    void* fn = nullptr;
    int32_t only_role = -1;  // -1 = all
  };
  template <typename Fn>
  static Task bind(Fn& fn) {
    return {[](void* erased, RankContext& ctx) { (*static_cast<Fn*>(erased))(ctx); },
            const_cast<void*>(static_cast<const void*>(std::addressof(fn)))};
  }
  struct Worker {
    RankContext ctx;
    std::exception_ptr error;
    std::unique_ptr<DelayFuzz> fuzz;
  };

  void run_task(const Task& task);
  void work(Worker& worker, const std::stop_token& stop);
  void call_task(Worker& worker, const Task& task);
  void finish_task();
  void renew_signals();
  Worker& worker_of(int32_t rank, int32_t role) {
    return workers_[static_cast<size_t>(rank) * config_.num_roles + role];
  }

  ThreadsConfig config_;
  ProtocolFields protocol_;
  SymmetricHeap heap_;
  std::vector<Worker> workers_;  // [P, num_roles]
  uint32_t renewed_ = 0;         // epoch to which every epoch word was set last

  std::mutex mutex_;
  std::condition_variable_any task_ready_;  // knows stop tokens
  std::condition_variable task_done_;
  Task task_;  // guarded by mutex_, as are the four below
  uint64_t task_number_ = 0;
  int32_t num_running_ = 0;
  bool is_running_ = false;

  std::vector<std::jthread> threads_;  // last member: ends before what it uses
};

}  // namespace megaflux
