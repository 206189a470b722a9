#include "optimum/exact_optimum.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux::optimum {
namespace {

// What the program is about, with every table filled in.
struct Problem {
  int32_t num_ranks, num_experts, slots;
  std::vector<int32_t> owner, blocks, domain;
  std::vector<uint8_t> active;
  std::vector<int64_t> base, speed;

  Problem(const PlanConfig& config, const LoadTable& loads)
      : num_ranks(config.dims.num_ranks),
        num_experts(config.dims.num_experts),
        slots(config.dims.replica_slots),
        owner(config.owner_of.empty() ? contiguous_owners(num_experts, num_ranks)
                                      : config.owner_of),
        domain(config.domain_of.empty() ? std::vector<int32_t>(num_ranks, 0) : config.domain_of),
        active(config.active.empty() ? std::vector<uint8_t>(num_ranks, 1) : config.active),
        base(num_ranks, 0),
        speed(num_ranks, 1024) {
    for (int32_t e = 0; e < num_experts; ++e) {
      blocks.push_back(loads.blocks(e, config.dims.block_rows));
    }
    std::copy(config.base_blocks.begin(), config.base_blocks.end(), base.begin());
    std::copy(config.speed.begin(), config.speed.end(), speed.begin());
  }

  // Below 0 if the rank's other work alone takes longer.
  int64_t capacity(int32_t rank, int64_t finish) const {
    return finish * speed[rank] / 1024 - base[rank];
  }
  bool may_host(int32_t expert, int32_t rank) const {
    return rank != owner[expert] && active[rank] != 0 && domain[rank] == domain[owner[expert]];
  }
  // All blocks fit by `finish` if every rank could host everything in its domain.
  bool fits(int64_t finish) const {
    for (int32_t r = 0; r < num_ranks; ++r) {
      if (active[r] == 0) continue;
      int64_t room = 0, needed = 0;
      for (int32_t other = 0; other < num_ranks; ++other) {
        if (active[other] == 0 || domain[other] != domain[r]) continue;
        if (capacity(other, finish) < 0) return false;
        room += capacity(other, finish);
      }
      for (int32_t e = 0; e < num_experts; ++e) {
        needed += domain[owner[e]] == domain[r] ? blocks[e] : 0;
      }
      if (needed > room) return false;
    }
    return true;
  }
};

std::string name_of(char kind, int32_t expert, int32_t rank) {
  std::ostringstream name;
  name << kind << '_' << expert << '_' << rank;
  return name.str();
}

// A sum of variables as LP text, broken into lines.
class Sum {
 public:
  void add(const std::string& variable, int64_t factor = 1) {
    if (count_++ % 8 == 0 && count_ > 1) text_ << "\n  ";
    text_ << (factor < 0 ? " - " : " + ");
    if (std::abs(factor) != 1) text_ << std::abs(factor) << " ";
    text_ << variable;
  }
  bool empty() const { return count_ == 0; }
  std::string str() const { return text_.str(); }

 private:
  std::ostringstream text_;
  int count_ = 0;
};

// Experts that are equal in all respects need not be told apart: the first has most replicas.
void order_equal_experts(const Problem& p, std::ostringstream& text) {
  for (int32_t e = 0; e < p.num_experts; ++e) {
    for (int32_t f = e + 1; f < p.num_experts && p.blocks[e] > 0; ++f) {
      if (p.blocks[e] != p.blocks[f] || p.owner[e] != p.owner[f]) continue;
      Sum difference;
      for (int32_t r = 0; r < p.num_ranks; ++r) {
        if (!p.may_host(e, r)) continue;
        difference.add(name_of('y', e, r));
        difference.add(name_of('y', f, r), -1);
      }
      if (!difference.empty()) {
        text << " order_" << e << "_" << f << ":" << difference.str() << " >= 0\n";
      }
      break;
    }
  }
}

// A folder of its own for a question, gone with the object.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "megaflux_optimum_XXXXXX").string()) {
    MF_INVARIANT(mkdtemp(path_.data()) != nullptr, "cannot make the folder ", path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Values of the variables that are not 0, from cbc's solution file, checked against the problem.
void check_solution(const Problem& p, int64_t finish, const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::vector<int64_t> left(p.blocks.begin(), p.blocks.end()), load(p.num_ranks, 0);
  std::vector<int32_t> used(p.num_ranks, 0);
  while (std::getline(in, line)) {
    int index = 0, expert = 0, rank = 0;
    double value = 0;
    if (std::sscanf(line.c_str(), " %d x_%d_%d %lf", &index, &expert, &rank, &value) != 4) continue;
    const int64_t blocks = std::llround(value);
    MF_INVARIANT(std::abs(value - double(blocks)) < 1e-3, "x_", expert, "_", rank, " = ", value,
                 " is no number of blocks");
    if (blocks == 0) continue;
    left[expert] -= blocks;
    load[rank] += blocks;
    used[rank] += rank != p.owner[expert];
    MF_INVARIANT(rank == p.owner[expert] || p.may_host(expert, rank), "expert ", expert,
                 " may not be on rank ", rank);
  }
  for (int32_t e = 0; e < p.num_experts; ++e) {
    MF_INVARIANT(left[e] == 0, "expert ", e, ": ", left[e], " blocks are on no rank");
  }
  for (int32_t r = 0; r < p.num_ranks; ++r) {
    MF_INVARIANT(p.active[r] == 0 || load[r] <= p.capacity(r, finish), "rank ", r, ": ", load[r],
                 " blocks pass the capacity ", p.capacity(r, finish));
    MF_INVARIANT(used[r] <= p.slots, "rank ", r, ": ", used[r], " replicas, ", p.slots, " slots");
  }
}

}  // namespace

int64_t trivial_bound(const PlanConfig& config, const LoadTable& loads) {
  const Problem problem(config, loads);
  int64_t least = 0, most = 1;
  while (!problem.fits(most)) most *= 2;
  while (least < most) {
    const int64_t middle = least + (most - least) / 2;
    if (problem.fits(middle)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

std::string feasibility_program(const PlanConfig& config, const LoadTable& loads, int64_t finish) {
  const Problem p(config, loads);
  std::ostringstream text, links;
  Sum hosts;
  std::vector<Sum> rank_load(p.num_ranks), rank_slots(p.num_ranks);
  text << "Minimize\n nothing: 0 one\nSubject To\n unit: one = 1\n";
  for (int32_t e = 0; e < p.num_experts; ++e) {
    if (p.blocks[e] == 0) continue;
    Sum parts;
    for (int32_t r = 0; r < p.num_ranks; ++r) {
      const std::string x = name_of('x', e, r), y = name_of('y', e, r);
      if (r == p.owner[e] || p.may_host(e, r)) {
        parts.add(x);
        rank_load[r].add(x);
      }
      if (!p.may_host(e, r)) continue;
      const int64_t most = std::min<int64_t>(p.blocks[e], p.capacity(r, finish));
      links << " link" << x << ": " << x << " - " << most << " " << y << " <= 0\n";
      rank_slots[r].add(y);
      hosts.add(y);
    }
    text << " blocks_" << e << ":" << parts.str() << " = " << p.blocks[e] << "\n";
  }
  for (int32_t r = 0; r < p.num_ranks; ++r) {
    if (!rank_load[r].empty()) {
      text << " load_" << r << ":" << rank_load[r].str() << " <= " << p.capacity(r, finish) << "\n";
    }
    if (!rank_slots[r].empty()) {
      text << " slots_" << r << ":" << rank_slots[r].str() << " <= " << p.slots << "\n";
    }
  }
  order_equal_experts(p, links);
  text << links.str();
  std::string binaries = hosts.str();
  std::replace(binaries.begin(), binaries.end(), '+', ' ');
  if (!hosts.empty()) text << "Binaries\n" << binaries << "\n";
  text << "End\n";
  return text.str();
}

bool has_cbc() {
  return std::system("command -v cbc >/dev/null 2>&1") == 0;
}

Answer ask_cbc(const PlanConfig& config, const LoadTable& loads, int64_t finish, int32_t seconds) {
  const Folder folder;
  const std::string program = folder.path() + "/plan.lp", solution = folder.path() + "/answer.txt";
  std::ofstream(program) << feasibility_program(config, loads, finish);
  const std::string command = "cbc '" + program + "' -sec " + std::to_string(seconds) +
                              " -solve -solu '" + solution + "' 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  MF_INVARIANT(pipe != nullptr, "cannot run: ", command);
  std::string said;
  for (char piece[4096]; std::fgets(piece, sizeof piece, pipe) != nullptr;) said += piece;
  pclose(pipe);
  const auto says = [&](const char* words) { return said.find(words) != std::string::npos; };
  Answer answer = Answer::kUnknown;
  if (says("Problem proven infeasible") || says("Problem is infeasible") ||
      says("Linear relaxation infeasible")) {
    answer = Answer::kInfeasible;
  } else if (std::ifstream in(solution); in) {
    std::string status;
    std::getline(in, status);
    if (status.starts_with("Optimal")) {
      check_solution(Problem(config, loads), finish, solution);
      answer = Answer::kFeasible;
    }
  }
  MF_INVARIANT(answer != Answer::kUnknown || says("Stopped on"), command, ":\n", said);
  return answer;
}

OptimumBounds find_optimum(const PlanConfig& config, const LoadTable& loads, int64_t known,
                           int32_t seconds) {
  OptimumBounds bounds{trivial_bound(config, loads), known};
  while (bounds.lower < bounds.upper) {
    const int64_t middle = bounds.lower + (bounds.upper - bounds.lower) / 2;
    const Answer answer = ask_cbc(config, loads, middle, seconds);
    if (answer == Answer::kUnknown) break;
    if (answer == Answer::kFeasible) {
      bounds.upper = middle;
    } else {
      bounds.lower = middle + 1;
    }
  }
  return bounds;
}

}  // namespace megaflux::optimum
