// NumPy reads what we write, and we read what NumPy writes.
#include <gtest/gtest.h>

#include <cstdlib>

#include "megaflux/trace/deflate.h"
#include "megaflux/trace/trace_file.h"
#include "trace/trace_fixture.h"

namespace megaflux {
namespace {

bool python(const std::string& code, const std::vector<std::string>& arguments = {}) {
  const TempFolder folder;
  write_bytes(folder.file("script.py"), bytes_of(code));
  std::string command = MF_PYTHON " '" + folder.file("script.py") + "'";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  return std::system(command.c_str()) == 0;
}

class NumPy : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!python(
            "import importlib.util, sys\nsys.exit(importlib.util.find_spec('numpy') is None)")) {
      GTEST_SKIP()
          << "SKIPPED: python3 with numpy is not there. Type: apt-get install python3-numpy";
    }
  }
};

TEST_F(NumPy, ReadsWhatWeWrite) {
  const TempFolder folder;
  const Trace trace(small_data());
  write_trace(folder.file("stored.npz"), trace, TracePacking::kStored);
  std::vector<std::string> files = {folder.file("stored.npz")};
  if (deflate_available()) {
    write_trace(folder.file("deflated.npz"), trace, TracePacking::kDeflated);
    files.push_back(folder.file("deflated.npz"));
  }
  EXPECT_TRUE(python(R"(
import json, sys
import numpy as np
for path in sys.argv[1:]:
    with np.load(path, allow_pickle=False) as trace:
        meta = json.loads(trace["meta"].tobytes())
        assert meta["schema"] == "megaflux.trace/1" and meta["layers"] == [3, 7], meta
        shapes = {name: (trace[name].dtype.str, trace[name].shape) for name in trace.files}
        assert shapes == {
            "meta": ("|u1", trace["meta"].shape), "loads": ("<i4", (2, 2, 2, 3)),
            "topk_ids": ("<i2", (7, 2, 2)), "step_offsets": ("<i8", (3,)),
            "rank_offsets": ("<i8", (2, 3)), "topk_weights": ("<f4", (7, 2, 2)),
            "realised_rows": ("<i4", (2, 2, 2)), "instances": ("<i4", (2, 6)),
            "phase_us": ("<f4", (2, 2, 2, 8)), "flags": ("|u1", (2, 2))}, shapes
        cut = trace["rank_offsets"]
        for s, l, p in np.ndindex(2, 2, 2):
            ids = trace["topk_ids"][cut[s, p]:cut[s, p + 1], l]
            counts = np.bincount(ids[ids >= 0], minlength=3)
            assert (counts == trace["loads"][s, l, p]).all(), (s, l, p)
        assert trace["phase_us"][1, 1, 1, 7] == 31.5
)",
                     files));
}

TEST_F(NumPy, WeReadWhatItWrites) {
  const TempFolder folder;
  ASSERT_TRUE(
      python(R"(
import json, sys
import numpy as np
rng = np.random.default_rng(3)
ids = rng.permuted(np.tile(np.arange(16), (50, 2, 1)), axis=2)[:, :, :4].astype(np.int16)
loads = np.stack([np.bincount(ids[:, l].ravel(), minlength=16) for l in range(2)])
meta = {"schema": "megaflux.trace/1", "num_experts": 16, "topk": 4, "layers": [1, 2],
        "model": "µ-model", "something": {"else": [1, None]}}
meta = np.frombuffer(json.dumps(meta, ensure_ascii=False).encode(), np.uint8)
arrays = dict(meta=meta, topk_ids=ids, loads=loads[None, :, None].astype(np.int32))
np.savez(sys.argv[1], **arrays)
np.savez_compressed(sys.argv[2], **arrays)
np.savez(sys.argv[3], meta=meta, topk_ids=np.asfortranarray(ids))
)",
             {folder.file("stored.npz"), folder.file("deflated.npz"), folder.file("fortran.npz")}));
  const Trace stored = read_trace(folder.file("stored.npz"));
  EXPECT_EQ(stored.meta().model, "µ-model");
  EXPECT_EQ(stored.num_tokens(0), 50);
  EXPECT_EQ(stored.loads(0, 1, 8).total_rows(), 200);
  if (deflate_available()) {
    expect_equal(read_trace(folder.file("deflated.npz")).data(), stored.data());
  }
  expect_bad_input([&] { read_trace(folder.file("fortran.npz")); },
                   {"fortran.npz", "topk_ids", "Fortran order"});
}

// The example of docs/trace_format.md, as it stands there.
TEST_F(NumPy, DocumentedExample) {
  std::ifstream stream(std::string(MF_SOURCE_DIR) + "/docs/trace_format.md");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const size_t begin = text.find("```python\n") + 10;
  const std::string code = text.substr(begin, text.find("```", begin) - begin);
  const TempFolder folder;
  ASSERT_TRUE(python("import os, sys\nos.chdir(sys.argv[1])\n" + code, {folder.file("")}));
  const Trace trace = read_trace(folder.file("mine.npz"));
  EXPECT_EQ(trace.num_tokens(0), 4096);
  EXPECT_EQ(trace.loads(0, 0, 8).total_rows(), 4096 * 6);
  EXPECT_EQ(trace.layer_index(4), 1);
}

}  // namespace
}  // namespace megaflux
