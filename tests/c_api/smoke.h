/* A client of megaflux.h in plain C; returns 0, or the line that failed, with the last message. */
#ifndef MEGAFLUX_TESTS_C_API_SMOKE_H
#define MEGAFLUX_TESTS_C_API_SMOKE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C"
#endif
    int
    megaflux_smoke(char* message, size_t message_bytes);

#endif
