#include "megaflux/layer/cpu/gemm.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "megaflux/base/bf16.h"
#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/base/rng.h"
#include "megaflux/layer/cpu/gemm_plain.h"

#ifdef MEGAFLUX_HAS_ONEDNN
#include <omp.h>

#include <array>
#include <dnnl.hpp>
#endif

namespace megaflux {
namespace {

// "oneDNN 2.6.3", the version that is loaded.
std::string library_name() {
#ifdef MEGAFLUX_HAS_ONEDNN
  const dnnl::version_t* version = dnnl::version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
#else
  return "oneDNN";
#endif
}

}  // namespace

std::string_view gemm_backend_name(GemmBackend backend) {
  switch (backend) {
    case GemmBackend::kAuto:
      return "automatic";
    case GemmBackend::kPlainLoops:
      return "plain loops, f32";
    case GemmBackend::kOneDnnF32: {
      static const std::string name = library_name() + ", f32 GEMM (bf16 operands widened)";
      return name;
    }
    case GemmBackend::kOneDnnBf16: {
      static const std::string name = library_name() + ", bf16 GEMM";
      return name;
    }
  }
  return "unknown";
}

GemmBackend choose_gemm_backend(DType dtype) {
  if (dtype == DType::kBf16 && is_available(GemmBackend::kOneDnnBf16)) {
    return GemmBackend::kOneDnnBf16;
  }
  return is_available(GemmBackend::kOneDnnF32) ? GemmBackend::kOneDnnF32 : GemmBackend::kPlainLoops;
}

#ifndef MEGAFLUX_HAS_ONEDNN

bool is_available(GemmBackend backend) {
  return backend == GemmBackend::kAuto || backend == GemmBackend::kPlainLoops;
}

struct Gemm::Implementation {
  GemmBackend backend;
  GemmShape shape;
};

#else

bool is_available(GemmBackend backend) {
  if (backend != GemmBackend::kOneDnnBf16) return true;
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") != 0;
}

namespace {

// Keeps the library on the calling thread, and leaves that thread's OpenMP setting as it was.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

dnnl::memory::desc plain_desc(int64_t rows, int64_t cols, bool is_transposed, DType dtype) {
  const auto type =
      dtype == DType::kBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  return {{rows, cols},
          type,
          is_transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{cols, 1}};
}

dnnl::matmul::primitive_desc make_primitive_desc(const dnnl::engine& engine, const GemmShape& shape,
                                                 DType operand) {
  const auto a = plain_desc(shape.m, shape.k, shape.is_a_transposed, operand);
  auto b = plain_desc(shape.k, shape.n, shape.is_b_transposed, operand);
  if (shape.is_b_packed) {
    b = dnnl::memory::desc(
        {shape.k, shape.n},
        operand == DType::kBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32,
        dnnl::memory::format_tag::any);
  }
  const auto c = plain_desc(shape.m, shape.n, false, DType::kFp32);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.is_accumulating) {
    dnnl::post_ops add;
    add.append_sum(1.0f);
    attributes.set_post_ops(add);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, engine);
#endif
}

}  // namespace

struct Gemm::Implementation {
  Implementation(GemmBackend chosen, const GemmShape& gemm_shape)
      : backend(chosen), shape(gemm_shape) {
    if (backend == GemmBackend::kPlainLoops) return;
    // The library picks its blocking for the number of threads it sees now.
    const OneThread one_thread;
    engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
    stream = dnnl::stream(engine);
    const auto desc = make_primitive_desc(engine, shape, operand_dtype(backend));
    matmul = dnnl::matmul(desc);
    a = dnnl::memory(desc.src_desc(), engine, nullptr);
    b = dnnl::memory(desc.weights_desc(), engine, nullptr);
    c = dnnl::memory(desc.dst_desc(), engine, nullptr);
    scratch = dnnl::memory(desc.scratchpad_desc(), engine);
    arguments = {{{DNNL_ARG_SRC, a.get()},
                  {DNNL_ARG_WEIGHTS, b.get()},
                  {DNNL_ARG_DST, c.get()},
                  {DNNL_ARG_SCRATCHPAD, scratch.get()}}};
  }

  GemmBackend backend;
  GemmShape shape;
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::matmul matmul;
  dnnl::memory a, b, c, scratch;
  // The C++ wrapper of execute builds a map a call; the C interface takes this array as it is.
  std::array<dnnl_exec_arg_t, 4> arguments;
};

#endif

Gemm::Gemm(GemmBackend backend, const GemmShape& shape) {
  MF_CHECK(is_available(backend) && backend != GemmBackend::kAuto,
           "gemm backend: ", gemm_backend_name(backend),
           " is not available in this build or on this CPU");
  MF_CHECK(shape.m > 0 && shape.n > 0 && shape.k > 0, "gemm shape: ", shape.m, " x ", shape.n,
           " x ", shape.k, " must be positive");
  implementation_ = std::make_unique<Implementation>(Implementation{backend, shape});
}

Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

void Gemm::run(const void* a, const void* b, float* c) {
  Implementation& gemm = *implementation_;
  if (gemm.backend == GemmBackend::kPlainLoops) {
    plain_gemm(gemm.shape, static_cast<const float*>(a), static_cast<const float*>(b), c);
    return;
  }
#ifdef MEGAFLUX_HAS_ONEDNN
  const OneThread one_thread;
  gemm.a.set_data_handle(const_cast<void*>(a));
  gemm.b.set_data_handle(const_cast<void*>(b));
  gemm.c.set_data_handle(c);
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(gemm.matmul.get(), gemm.stream.get(),
                             static_cast<int>(gemm.arguments.size()), gemm.arguments.data()),
      "matmul");
  gemm.stream.wait();
#endif
}

int64_t Gemm::packed_bytes() const {
  const Implementation& gemm = *implementation_;
#ifdef MEGAFLUX_HAS_ONEDNN
  if (gemm.backend != GemmBackend::kPlainLoops) {
    return static_cast<int64_t>(gemm.b.get_desc().get_size());
  }
#endif
  return gemm.shape.n * gemm.shape.k * dtype_bytes(operand_dtype(gemm.backend));
}

void Gemm::pack_b(const void* b, void* packed) {
  [[maybe_unused]] Implementation& gemm = *implementation_;
#ifdef MEGAFLUX_HAS_ONEDNN
  if (gemm.backend != GemmBackend::kPlainLoops) {
    const OneThread one_thread;
    dnnl::memory from(plain_desc(gemm.shape.k, gemm.shape.n, gemm.shape.is_b_transposed,
                                 operand_dtype(gemm.backend)),
                      gemm.engine, const_cast<void*>(b));
    dnnl::memory to(gemm.b.get_desc(), gemm.engine, packed);
    dnnl::reorder(from, to).execute(gemm.stream, from, to);
    gemm.stream.wait();
    return;
  }
#endif
  std::memcpy(packed, b, static_cast<size_t>(packed_bytes()));
}

namespace {

// Random operand elements, rounded to the operand's type.
void draw_operand(DType dtype, int64_t count, Rng& rng, std::vector<std::byte>& out) {
  const auto size = static_cast<size_t>(dtype_bytes(dtype));
  for (int64_t i = 0; i < count; ++i) {
    const float value = rng.symmetric(1.0f);
    const Bf16 rounded(value);
    const void* element = dtype == DType::kBf16 ? static_cast<const void*>(&rounded) : &value;
    std::memcpy(out.data() + i * size, element, size);
  }
}

// Rows of A to try: so many that C has a thousand different elements, since two orders of summation
// often agree on a few.
int64_t num_trials(const GemmShape& shape) {
  return ceil_div(int64_t{1024}, shape.n);
}

// Equal rows at all places of A: are the first 128 rows of C equal bit for bit, for every trial?
bool is_row_independent(GemmBackend backend, const GemmShape& shape) {
  const DType operand = operand_dtype(backend);
  const auto row_bytes = static_cast<size_t>(shape.k * dtype_bytes(operand));
  std::vector<std::byte> a(static_cast<size_t>(shape.m) * row_bytes);
  std::vector<std::byte> b(static_cast<size_t>(shape.n) * row_bytes);
  std::vector<float> c(static_cast<size_t>(shape.m * shape.n));
  const auto result_bytes = static_cast<size_t>(shape.n) * sizeof(float);
  Gemm gemm(backend, shape);
  std::vector<std::byte> packed(shape.is_b_packed ? static_cast<size_t>(gemm.packed_bytes()) : 0);
  Rng rng(1);
  draw_operand(operand, shape.n * shape.k, rng, b);
  if (shape.is_b_packed) gemm.pack_b(b.data(), packed.data());
  for (int64_t trial = 0; trial < num_trials(shape); ++trial) {
    draw_operand(operand, shape.k, rng, a);
    for (int64_t i = 1; i < shape.m; ++i) {
      std::memcpy(a.data() + i * row_bytes, a.data(), row_bytes);
    }
    gemm.run(a.data(), shape.is_b_packed ? packed.data() : b.data(), c.data());
    for (int64_t i = 1; i < 128; ++i) {
      if (std::memcmp(c.data(), c.data() + i * shape.n, result_bytes) != 0) return false;
    }
  }
  return true;
}

}  // namespace

int32_t row_independent_rows(GemmBackend backend, std::span<const GemmShape> shapes) {
  // One chain over k an element, whatever the row.
  if (backend == GemmBackend::kPlainLoops) return 128;
  for (const int32_t rows : {128, 132, 144}) {
    const bool is_equal = std::all_of(shapes.begin(), shapes.end(), [&](GemmShape shape) {
      shape.m = rows;
      return is_row_independent(backend, shape);
    });
    if (is_equal) return rows;
  }
  return 0;
}

}  // namespace megaflux
