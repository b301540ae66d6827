/* fleets.c -- see fleets.h. */
#include "binding/fleets.h"
#include <dlfcn.h>
#include <link.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mr_fleet *fleets[MR_FLEETS_MAX];
static uint32_t last_id;

mr_rc mr_fleets_create(mr_fleet_options options, mr_fleet **out)
{
    mr_rc rc = MR_LIMIT;
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < MR_FLEETS_MAX && rc == MR_LIMIT; i++) {
        if (fleets[i] != NULL)
            continue;
        options.id = ++last_id;
        rc = mr_fleet_create(&options, &fleets[i]);
        *out = fleets[i];
    }
    (void)pthread_mutex_unlock(&lock);
    return rc;
}

mr_fleet *mr_fleets_find(uint32_t id)
{
    mr_fleet *found = NULL;
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < MR_FLEETS_MAX; i++)
        if (fleets[i] != NULL && fleets[i]->id == id)
            found = fleets[i];
    if (found != NULL)
        mr_fleet_retain(found);
    (void)pthread_mutex_unlock(&lock);
    return found;
}

void mr_fleets_forget(mr_fleet *fleet)
{
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < MR_FLEETS_MAX; i++)
        if (fleets[i] == fleet)
            fleets[i] = NULL;
    (void)pthread_mutex_unlock(&lock);
}

/* ---- copies ---- */

/* Every copy exports it; asked by name, so that it never changes. */
extern const char millrace_addon_marker;
__attribute__((visibility("default"))) const char millrace_addon_marker = 1;

/* Node loads addons with RTLD_LOCAL: each loaded object is asked by itself. */
static int count_copy(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)size;
    if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0')
        return 0;
    void *object = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (object == NULL)
        return 0;
    /* dlsym() also looks at what an object depends on; no addon depends on another. */
    if (dlsym(object, "millrace_addon_marker") != NULL)
        ++*(uint32_t *)count;
    (void)dlclose(object);
    return 0;
}

uint32_t mr_fleets_copies(void)
{
    uint32_t count = 0;
    (void)dl_iterate_phdr(count_copy, &count);
    return count;
}
