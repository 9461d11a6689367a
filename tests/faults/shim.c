/* Puts a fault between a program and the kernel: loaded by LD_PRELOAD, it spoils reads of some bytes of some files.
 *
 * FAULT_FILES is how the files' paths begin. FAULT_KIND is "eio", "short" (half of what is asked for, at least a byte) or
 * "slow" (FAULT_SECONDS, then as it is). FAULT_BEGIN and FAULT_END say which bytes: a read that touches none of them is
 * not spoiled.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum fault { NONE, EIO_ERROR, SHORT };

static long long number_from(const char *variable)
{
    const char *text = getenv(variable);
    return text == NULL ? 0 : atoll(text);
}

static int is_named(int descriptor)
{
    const char *files = getenv("FAULT_FILES");
    char link[64], path[4096];
    if (files == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    return strncmp(path, files, strlen(files)) == 0;
}

static enum fault fault_of(int descriptor, size_t size, long long offset)
{
    int before = errno;
    int spoiled = offset < number_from("FAULT_END") && offset + (long long)size > number_from("FAULT_BEGIN")
                  && is_named(descriptor);
    errno = before;
    if (!spoiled)
        return NONE;
    const char *kind = getenv("FAULT_KIND");
    if (strcmp(kind, "eio") == 0)
        return EIO_ERROR;
    if (strcmp(kind, "short") == 0)
        return SHORT;
    struct timespec rest = {.tv_sec = number_from("FAULT_SECONDS")};
    while (nanosleep(&rest, &rest) != 0)
        ;
    return NONE;
}

static size_t half(size_t size)
{
    return size < 2 ? size : size / 2;
}

static size_t total(const struct iovec *parts, int count)
{
    size_t size = 0;
    for (int part = 0; part < count; part++)
        size += parts[part].iov_len;
    return size;
}

/* Every function looks up the one it stands for. */
#define REAL(name) static __typeof__(name) *real; if (real == NULL) real = dlsym(RTLD_NEXT, #name)

#define POSITIONAL(name, offset_type)                                             \
    ssize_t name(int descriptor, void *buffer, size_t size, offset_type offset)   \
    {                                                                             \
        REAL(name);                                                               \
        enum fault fault = fault_of(descriptor, size, offset);                    \
        if (fault == EIO_ERROR)                                                   \
            return errno = EIO, -1;                                               \
        return real(descriptor, buffer, fault == SHORT ? half(size) : size, offset); \
    }

POSITIONAL(pread, off_t)
#ifdef __GLIBC__ /* has a second name for those with 64-bit offsets */
POSITIONAL(pread64, off64_t)
#endif

/* The first part alone, or half of it, is a short read too. */
#define VECTOR(name, offset_type)                                                                     \
    ssize_t name(int descriptor, const struct iovec *parts, int count, offset_type offset)            \
    {                                                                                                 \
        REAL(name);                                                                                   \
        enum fault fault = fault_of(descriptor, total(parts, count), offset);                         \
        if (fault == EIO_ERROR)                                                                       \
            return errno = EIO, -1;                                                                   \
        if (fault == SHORT) {                                                                         \
            struct iovec first = {parts[0].iov_base, half(parts[0].iov_len)};                         \
            return real(descriptor, &first, 1, offset);                                               \
        }                                                                                             \
        return real(descriptor, parts, count, offset);                                                \
    }

VECTOR(preadv, off_t)
#ifdef __GLIBC__
VECTOR(preadv64, off64_t)
#endif

ssize_t read(int descriptor, void *buffer, size_t size)
{
    REAL(read);
    /* Most of what is read so has no offset: pipes and sockets. */
    off_t offset = is_named(descriptor) ? lseek(descriptor, 0, SEEK_CUR) : -1;
    enum fault fault = offset < 0 ? NONE : fault_of(descriptor, size, offset);
    if (fault == EIO_ERROR)
        return errno = EIO, -1;
    return real(descriptor, buffer, fault == SHORT ? half(size) : size);
}
