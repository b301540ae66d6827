/* host_llhttp.c -- see host_llhttp.h.
 * A symbol's address comes as a data pointer and is copied into a function pointer octet by octet:
 * POSIX promises that this works, C has no cast for it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include "binding/host_llhttp.h"
#include <dlfcn.h>
#include <string.h>

_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym() gives either");

static void find(const char *name, void *function)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &symbol, sizeof symbol);
}

void mr_host_llhttp_find(mr_llhttp_api *api)
{
    find("llhttp_settings_init", &api->settings_init);
    find("llhttp_init", &api->init);
    find("llhttp_execute", &api->execute);
    find("llhttp_pause", &api->pause);
    find("llhttp_resume", &api->resume);
    find("llhttp_get_errno", &api->get_errno);
    find("llhttp_errno_name", &api->errno_name);
    find("llhttp_get_error_pos", &api->get_error_pos);
    find("llhttp_get_method", &api->get_method);
    find("llhttp_method_name", &api->method_name);
    find("llhttp_get_http_major", &api->get_http_major);
    find("llhttp_get_http_minor", &api->get_http_minor);
    find("llhttp_should_keep_alive", &api->should_keep_alive);
}
