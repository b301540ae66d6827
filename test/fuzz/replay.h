/* replay.h -- with -DMR_FUZZ_REPLAY: a main that runs the files named on the command line through
 * the harness once each, for compilers without libFuzzer. Included last by each harness. */
#ifndef MR_FUZZ_REPLAY_H
#define MR_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

#ifdef MR_FUZZ_REPLAY

#include <stdio.h>
#include <stdlib.h>

static int replay_file(const char *path) {
    enum { SIZE_MAX_KB = 1024 };
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(SIZE_MAX_KB * 1024);
    int rc = 1;
    if (file != NULL && bytes != NULL) {
        LLVMFuzzerTestOneInput(bytes, fread(bytes, 1, SIZE_MAX_KB * 1024, file));
        rc = ferror(file) != 0;
    }
    if (rc != 0)
        fprintf(stderr, "cannot read %s\n", path);
    if (file != NULL)
        fclose(file);
    free(bytes);
    return rc;
}

int main(int argc, char **argv) {
    int failed = argc < 2;
    for (int i = 1; i < argc; i++)
        failed |= replay_file(argv[i]);
    printf("%d files replayed\n", argc - 1);
    return failed;
}

#endif
#endif
