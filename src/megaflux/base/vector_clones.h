// Loops compiled twice: for the baseline CPU and for one with AVX2 and FMA, chosen when the program
// is loaded. Results are equal bit for bit, since contraction is off and fused multiply-adds are
// explicit.
#pragma once

// Sanitizers instrument the resolver that makes the choice and crash in it, so there is one version
// then.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define MF_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define MF_VECTOR_CLONES
#endif
