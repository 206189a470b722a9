"""`megaflux doctor`: the machine and the backends."""

import os

from program import ProgramTest, environment


class Doctor(ProgramTest):
    def test_json(self):
        doctor = self.json("doctor")
        self.assertEqual(doctor["schema"], "megaflux.doctor/1")
        self.assertEqual(doctor["cpu"]["cores"], len(os.sched_getaffinity(0)))
        self.assertGreater(doctor["cpu"]["memory_bytes"], 1 << 28)
        self.assertIsInstance(doctor["cpu"]["isa"]["AVX2"], bool)
        backends = {backend["name"]: backend for backend in doctor["backends"]}
        self.assertTrue(backends["cpu"]["available"])
        self.assertIsNone(backends["cpu"]["reason"])
        self.assertFalse(backends["cuda"]["available"])
        self.assertRegex(doctor["gemm"], r"^(oneDNN \d+\.\d+\.\d+|plain loops), ")
        self.assertTrue(backends["cuda"]["reason"])
        for backend in backends.values():
            for feature in backend["features"]:
                if not feature["supported"]:
                    self.assertTrue(feature["detail"], feature)

    def test_report(self):
        text = self.ok("doctor").stdout
        for word in ["CPU", "memory", "GEMM", "GPU", "nvcc", "NCCL", "Backend cpu", "Backend cuda",
                     "bf16", "E <= 4096"]:
            self.assertIn(word, text)

    def test_one_backend_alone(self):
        cpu = self.json("doctor", "--backend", "cpu")
        self.assertEqual([backend["name"] for backend in cpu["backends"]], ["cpu"])
        self.rejected("doctor", "--backend", "tpu", words=["--backend", "tpu", "cpu|cuda"])

    def test_a_build_without_cuda_says_so(self):
        words = ["--backend cuda", "MEGAFLUX_CUDA=ON"]
        self.assertFalse(self.json("doctor")["cuda"]["in_build"])
        self.rejected("doctor", "--backend", "cuda", words=words)
        self.rejected("plan", self.loads(), "--ranks", 4, "--backend", "cuda", words=words)

    def test_finds_programs_on_the_path(self):
        nvcc = self.write("nvcc", "#!/bin/sh\n")
        nvcc.chmod(0o755)
        found = self.json("doctor", env=environment(PATH=str(self.folder)))
        self.assertEqual(found["cuda"]["nvcc"], str(nvcc))
        nvcc.unlink()
        absent = self.json("doctor", env=environment(PATH=str(self.folder)))
        self.assertIsNone(absent["cuda"]["nvcc"])
