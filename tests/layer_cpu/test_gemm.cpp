// The GEMM's contract: right results, and bits of a row that do not depend on its place in the
// tile.
#include "megaflux/layer/cpu/gemm.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"

namespace megaflux {
namespace {

std::vector<GemmBackend> f32_backends() {
  std::vector<GemmBackend> backends = {GemmBackend::kPlainLoops};
  if (is_available(GemmBackend::kOneDnnF32)) backends.push_back(GemmBackend::kOneDnnF32);
  return backends;
}

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = rng.symmetric(1.0f);
  return values;
}

double expected_at(const GemmShape& s, const std::vector<float>& a, const std::vector<float>& b,
                   int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t l = 0; l < s.k; ++l) {
    sum += double{a[s.is_a_transposed ? l * s.m + i : i * s.k + l]} *
           b[s.is_b_transposed ? j * s.k + l : l * s.n + j];
  }
  return sum;
}

void expect_right(GemmBackend backend, const GemmShape& shape) {
  const auto a = random_floats(shape.m * shape.k, 1);
  const auto b = random_floats(shape.k * shape.n, 2);
  const auto before = random_floats(shape.m * shape.n, 3);
  std::vector<float> c = before;
  if (!shape.is_accumulating) {
    std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
  }
  Gemm(backend, shape).run(a.data(), b.data(), c.data());
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      double want = expected_at(shape, a, b, i, j);
      if (shape.is_accumulating) want += before[i * shape.n + j];
      ASSERT_NEAR(c[i * shape.n + j], want, 1e-5 * std::sqrt(static_cast<double>(shape.k)) + 1e-5)
          << gemm_backend_name(backend) << " " << shape.m << "x" << shape.n << "x" << shape.k
          << " at " << i << ", " << j;
    }
  }
}

TEST(Gemm, EveryLayoutIsRight) {
  for (const GemmBackend backend : f32_backends()) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {7, 5}, {33, 129}, {48, 64}}) {
      for (int bits = 0; bits < 8; ++bits) {
        expect_right(backend, {.m = 128,
                               .n = n,
                               .k = k,
                               .is_a_transposed = (bits & 1) != 0,
                               .is_b_transposed = (bits & 2) != 0,
                               .is_accumulating = (bits & 4) != 0});
      }
    }
  }
}

// The same row at every place of the tile, among other companions each time (IC-29).
void expect_place_independent(GemmBackend backend, int64_t n, int64_t k, bool is_b_transposed) {
  const auto b = random_floats(n * k, 4);
  const auto row = random_floats(k, 5);
  GemmShape shape = {.n = n, .k = k, .is_b_transposed = is_b_transposed};
  shape.m = row_independent_rows(backend, {&shape, 1});
  ASSERT_GE(shape.m, 128);
  Gemm gemm(backend, shape);
  std::vector<float> first;
  for (int64_t place = 0; place < 128; ++place) {
    auto a = random_floats(shape.m * k, 6 + static_cast<uint64_t>(place));
    std::copy(row.begin(), row.end(), a.begin() + place * k);
    std::vector<float> c(shape.m * n, std::numeric_limits<float>::quiet_NaN());
    gemm.run(a.data(), b.data(), c.data());
    const std::vector<float> got(c.begin() + place * n, c.begin() + (place + 1) * n);
    if (place == 0) first = got;
    ASSERT_EQ(std::memcmp(got.data(), first.data(), n * sizeof(float)), 0)
        << gemm_backend_name(backend) << " n " << n << " k " << k << " place " << place;
  }
}

TEST(Gemm, IC_29_ARowsBitsDoNotDependOnItsPlace) {
  for (const GemmBackend backend : f32_backends()) {
    for (const bool is_b_transposed : {false, true}) {
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1},
                                 {1, 37},
                                 {2, 64},
                                 {5, 7},
                                 {7, 40},
                                 {40, 7},
                                 {48, 300},
                                 {130, 513}}) {
        expect_place_independent(backend, n, k, is_b_transposed);
      }
    }
  }
}

// With few columns and a short sum, two orders of summation agree for most rows: one row of A says
// too little, to the choice of padding as to this test.
TEST(Gemm, IC_29_TinyShapesKeepItForEveryRow) {
  if (!is_available(GemmBackend::kOneDnnF32)) GTEST_SKIP() << "SKIPPED: no oneDNN in this build";
  for (int64_t n = 1; n <= 5; ++n) {
    for (int64_t k = 2; k <= 26; ++k) {
      GemmShape shape = {.n = n, .k = k, .is_b_transposed = true};
      shape.m = row_independent_rows(GemmBackend::kOneDnnF32, {&shape, 1});
      ASSERT_GE(shape.m, 128) << "n " << n << " k " << k;
      Gemm gemm(GemmBackend::kOneDnnF32, shape);
      for (uint64_t seed = 20; seed < 30; ++seed) {
        const auto b = random_floats(n * k, seed);
        auto a = random_floats(shape.m * k, seed + 100);
        for (int64_t i = 1; i < shape.m; ++i) std::copy_n(a.begin(), k, a.begin() + i * k);
        std::vector<float> c(shape.m * n);
        gemm.run(a.data(), b.data(), c.data());
        for (int64_t i = 1; i < 128; ++i) {
          ASSERT_EQ(std::memcmp(c.data(), c.data() + i * n, n * sizeof(float)), 0)
              << "n " << n << " k " << k << " place " << i;
        }
      }
    }
  }
}

TEST(Gemm, IC_68_LargeOddShapesKeepIt) {
  if (!is_available(GemmBackend::kOneDnnF32)) GTEST_SKIP() << "SKIPPED: no oneDNN in this build";
  const auto b = random_floats(int64_t{2880} * 720, 4);
  const auto row = random_floats(2880, 5);
  GemmShape shape = {.n = 720, .k = 2880, .is_b_transposed = true};
  shape.m = row_independent_rows(GemmBackend::kOneDnnF32, {&shape, 1});
  ASSERT_GE(shape.m, 128);
  Gemm gemm(GemmBackend::kOneDnnF32, shape);
  std::vector<float> first;
  for (const int64_t place : {0, 1, 5, 31, 64, 100, 126, 127}) {
    auto a = random_floats(shape.m * 2880, 7 + static_cast<uint64_t>(place));
    std::copy(row.begin(), row.end(), a.begin() + place * 2880);
    std::vector<float> c(shape.m * 720);
    gemm.run(a.data(), b.data(), c.data());
    const std::vector<float> got(c.begin() + place * 720, c.begin() + (place + 1) * 720);
    if (first.empty()) first = got;
    ASSERT_EQ(std::memcmp(got.data(), first.data(), first.size() * sizeof(float)), 0) << place;
  }
}

// The library's threads are a setting of the caller's thread, which must find it as it was.
TEST(Gemm, CallersOpenMpSettingIsKept) {
  if (!is_available(GemmBackend::kOneDnnF32)) GTEST_SKIP() << "SKIPPED: no oneDNN in this build";
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  if (set == nullptr || get == nullptr) GTEST_SKIP() << "SKIPPED: oneDNN without OpenMP";
  const int before = get();
  set(3);
  const auto values = random_floats(64, 1);
  std::vector<float> c(64);
  Gemm gemm(GemmBackend::kOneDnnF32, {.m = 8, .n = 8, .k = 8});
  gemm.run(values.data(), values.data(), c.data());
  EXPECT_EQ(get(), 3);
  set(before);
}

TEST(Gemm, BackendIsChosenByWhatTheCpuOffers) {
  const GemmBackend fp32 = choose_gemm_backend(DType::kFp32);
  EXPECT_NE(fp32, GemmBackend::kOneDnnBf16);
  EXPECT_TRUE(is_available(choose_gemm_backend(DType::kBf16)));
  EXPECT_THROW(Gemm(GemmBackend::kAuto, {.m = 1, .n = 1, .k = 1}), Error);
  EXPECT_THROW(Gemm(GemmBackend::kPlainLoops, {.m = 1, .n = 0, .k = 1}), Error);
}

}  // namespace
}  // namespace megaflux
