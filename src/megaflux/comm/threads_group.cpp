#include "megaflux/comm/threads_group.h"

#include <algorithm>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/comm/entry_exit.h"
#include "megaflux/moe/limits.h"

namespace megaflux {
namespace {

const ThreadsConfig& checked(const ThreadsConfig& config) {
  MF_CHECK(config.num_ranks >= 1 && config.num_ranks <= kMaxRanks, "num_ranks: ", config.num_ranks,
           " is outside [1, ", kMaxRanks, "]");
  MF_CHECK(config.num_roles >= 1 && config.num_roles <= kMaxRoles, "num_roles: ", config.num_roles,
           " is outside [1, ", kMaxRoles, "]");
  MF_CHECK(config.payload_words >= 0, "payload_words: ", config.payload_words, " is negative");
  check_waits(config.waits);
  return config;
}

}  // namespace

ThreadsGroup::ThreadsGroup(const ThreadsConfig& config, Layout layout)
    : config_(checked(config)),
      protocol_(add_protocol_fields(layout, config.num_ranks, config.payload_words)),
      heap_(std::move(layout), config.num_ranks),
      workers_(static_cast<size_t>(config.num_ranks) * config.num_roles) {
  renewed_ = config_.start_epoch;
  heap_.reset_signals(renewed_);
  for (int32_t rank = 0; rank < config_.num_ranks; ++rank) {
    for (int32_t role = 0; role < config_.num_roles; ++role) {
      worker_of(rank, role).ctx = {.rank = rank,
                                   .num_ranks = config_.num_ranks,
                                   .role = static_cast<Role>(role),
                                   .num_roles = config_.num_roles,
                                   .epoch = config_.start_epoch,
                                   .heap = heap_.view(),
                                   .protocol = protocol_,
                                   .counters = heap_.layout().counters(),
                                   .waits = config_.waits};
    }
  }
  threads_.reserve(workers_.size());
  for (Worker& worker : workers_) {
    threads_.emplace_back([this, &worker](std::stop_token stop) { work(worker, stop); });
  }
}

ThreadsGroup::~ThreadsGroup() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void ThreadsGroup::work(Worker& worker, const std::stop_token& stop) {
  const auto role = static_cast<int32_t>(worker.ctx.role);
  uint64_t seen_number = 0;
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      const bool has_task =
          task_ready_.wait(lock, stop, [&] { return task_number_ != seen_number; });
      if (!has_task) return;
      seen_number = task_number_;
      task = task_;
    }
    // A role that has no part in a task is not counted by it and may even miss it.
    if (task.only_role >= 0 && task.only_role != role) continue;
    call_task(worker, task);
    const std::lock_guard lock(mutex_);
    if (--num_running_ == 0) task_done_.notify_one();
  }
}

void ThreadsGroup::call_task(Worker& worker, const Task& task) {
  FailureRecord failure{.kind = FailureKind::kException,
                        .rank = worker.ctx.rank,
                        .role = static_cast<int32_t>(worker.ctx.role)};
  std::string_view text = "an exception of unknown type";
  try {
    task.call(task.fn, worker.ctx);
    return;
  } catch (const AgreedError&) {
    worker.error = std::current_exception();
    return;
  } catch (const std::exception& error) {
    worker.error = std::current_exception();
    text = error.what();
  } catch (...) {
    worker.error = std::current_exception();
  }
  // worker.error keeps the exception, and with it the text, alive.
  failure.epoch = worker.ctx.epoch;
  text.copy(failure.text, sizeof(failure.text) - 1);
  raise_abort(worker.ctx, failure);
}

void ThreadsGroup::run_task(const Task& task) {
  std::unique_lock lock(mutex_);
  MF_CHECK(!is_running_, "the group is running already: one call at a time");
  check_sound();
  is_running_ = true;
  const int32_t num_roles = task.only_role < 0 ? config_.num_roles : 1;
  for (Worker& worker : workers_) worker.ctx.num_roles = num_roles;
  task_ = task;
  ++task_number_;
  num_running_ = config_.num_ranks * num_roles;
  task_ready_.notify_all();
  task_done_.wait(lock, [&] { return num_running_ == 0; });
  is_running_ = false;
  finish_task();
}

void ThreadsGroup::finish_task() {
  const RankContext& first = workers_.front().ctx;
  std::exception_ptr error;
  for (Worker& worker : workers_) {
    const std::exception_ptr theirs = std::exchange(worker.error, nullptr);
    if (theirs == nullptr) continue;
    const bool was_first = is_poisoned() && first_failure(first).rank == worker.ctx.rank &&
                           first_failure(first).role == static_cast<int32_t>(worker.ctx.role);
    if (error == nullptr || was_first) error = theirs;
  }
  // The compute role counts the launches; a comm role that had no part in them catches up here.
  for (Worker& worker : workers_) {
    worker.ctx.epoch = worker_of(worker.ctx.rank, 0).ctx.epoch;
    *heap_.view().at(worker.ctx.rank, protocol_.joined) = worker.ctx.epoch;
  }
  if (error != nullptr) std::rethrow_exception(error);
  for (Worker& worker : workers_) {
    if (worker.ctx.epoch == first.epoch) continue;
    FailureRecord failure{.kind = FailureKind::kException,
                          .rank = worker.ctx.rank,
                          .role = static_cast<int32_t>(worker.ctx.role),
                          .epoch = worker.ctx.epoch};
    constexpr std::string_view kText = "ended a run at another epoch than rank 0";
    kText.copy(failure.text, sizeof(failure.text) - 1);
    raise_abort(worker.ctx, failure);
    throw_error(ErrorCode::kDisagree, "ranks disagree: rank ", worker.ctx.rank,
                " ended the run at epoch ", worker.ctx.epoch, ", rank 0 at epoch ", first.epoch);
  }
  renew_signals();
}

// A word that no launch wrote for 2^31 of them (of a slot that stays empty, of an exit among heads)
// would seem to lie ahead. Between runs every launch has ended everywhere, as after recover().
void ThreadsGroup::renew_signals() {
  constexpr uint32_t kLongAgo = 1u << 30;
  const uint32_t epoch = workers_.front().ctx.epoch;
  if (epoch - renewed_ < kLongAgo) return;
  heap_.reset_signals(epoch);
  renewed_ = epoch;
}

bool ThreadsGroup::is_poisoned() const {
  return is_aborted(workers_.front().ctx);
}

void ThreadsGroup::check_sound() const {
  if (!is_poisoned()) return;
  throw_error(ErrorCode::kTimeout, "the group is poisoned until recover(), because ",
              failure_text());
}

std::string ThreadsGroup::failure_text() const {
  return is_poisoned() ? describe(first_failure(workers_.front().ctx)) : std::string();
}

void ThreadsGroup::recover() {
  const std::lock_guard lock(mutex_);
  MF_CHECK(!is_running_, "recover() while the group is running");
  uint32_t furthest = workers_.front().ctx.epoch;
  for (const Worker& worker : workers_) {
    if (is_reached(worker.ctx.epoch, furthest)) furthest = worker.ctx.epoch;
  }
  const uint32_t epoch = furthest + kRecoveryStep;
  renewed_ = epoch;
  heap_.reset_signals(epoch);
  for (Worker& worker : workers_) {
    worker.ctx.epoch = epoch;
    *heap_.view().at(worker.ctx.rank, protocol_.abort) = 0;
  }
}

void ThreadsGroup::set_delay_fuzz(std::optional<uint64_t> seed) {
  const std::lock_guard lock(mutex_);
  MF_CHECK(!is_running_, "set_delay_fuzz() while the group is running");
  Rng seeds(seed.value_or(0));
  for (Worker& worker : workers_) {
    worker.fuzz = seed ? std::make_unique<DelayFuzz>(seeds.next()) : nullptr;
    worker.ctx.fuzz = worker.fuzz.get();
  }
}

}  // namespace megaflux
