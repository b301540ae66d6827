/* h1_scan.c -- which scanner runs here. Fastest first; the last one runs everywhere. */
#include "proto/h1_scan.h"
#include <string.h>

#if defined(__x86_64__)
static const mr_h1_scan *const scans[] = {&mr_h1_scan_avx2, &mr_h1_scan_sse2, &mr_h1_scan_scalar};
#elif defined(__aarch64__)
static const mr_h1_scan *const scans[] = {&mr_h1_scan_neon, &mr_h1_scan_scalar};
#else
static const mr_h1_scan *const scans[] = {&mr_h1_scan_scalar};
#endif

#define SCAN_COUNT (sizeof scans / sizeof scans[0])

const mr_h1_scan *mr_h1_scan_best(void) {
    size_t i = 0;
    while (i + 1 < SCAN_COUNT && !scans[i]->is_supported())
        i++;
    return scans[i];
}

const mr_h1_scan *mr_h1_scan_named(const char *name) {
    for (size_t i = 0; i < SCAN_COUNT; i++)
        if (strcmp(scans[i]->name, name) == 0)
            return scans[i]->is_supported() ? scans[i] : NULL;
    return NULL;
}

const char *mr_h1_scan_name(const mr_h1_scan *scan) { return scan->name; }
