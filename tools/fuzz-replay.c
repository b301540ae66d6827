/* fuzz-replay.c -- a main for the harnesses in test/fuzz when libFuzzer is not there or not wanted:
 * runs each file named on the command line through the harness once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input in a block of just its size, so that AddressSanitizer sees a read behind its end. */
static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    long size = -1;
    uint8_t *data = NULL;
    int rc = 1;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
        goto done;
    rewind(file);
    data = malloc(size > 0 ? (size_t)size : 1);
    if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size)
        goto done;
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    rc = 0;
done:
    if (rc != 0)
        fprintf(stderr, "%s: cannot be read\n", path);
    free(data);
    if (file != NULL)
        (void)fclose(file);
    return rc;
}

int main(int argc, char **argv) {
    int rc = 0;
    for (int i = 1; i < argc; i++)
        rc |= replay(argv[i]);
    return rc;
}
