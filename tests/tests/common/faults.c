/* Makes calls to the system fail or hang: loaded before the C library into a program under test.
 *
 * While the file that CHOMP_TEST_FAULTS names is there, it has one line: a call, a part of a path (its end, if a $ follows),
 * and an error number or 0. Such a call on such a path fails with that error, or with 0 hangs until the file says
 * otherwise; then there is a file with ".hit" after its name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int matches(const char *path, char *part) {
    size_t length = strlen(part), all = strlen(path);
    if (part[length - 1] != '$') return strstr(path, part) != NULL;
    part[--length] = 0;
    return all >= length && strcmp(path + all - length, part) == 0;
}

/* What is wanted now of such calls, if anything is. */
static int wanted(const char *call, char part[256], int *number) {
    const char *file = getenv("CHOMP_TEST_FAULTS");
    char text[512] = "", name[16];
    int fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    return sscanf(text, "%15s %255s %d", name, part, number) == 3 && strcmp(name, call) == 0;
}

static void note_hit(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.hit", getenv("CHOMP_TEST_FAULTS"));
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) syscall(SYS_close, fd);
}

static int fault(const char *call, const char *path) {
    for (;;) {
        char part[256];
        int number;
        if (!wanted(call, part, &number) || !matches(path, part)) return 0;
        note_hit();
        if (number != 0) {
            errno = number;
            return 1;
        }
        usleep(10000);
    }
}

static const char *path_of(int fd, char *buffer, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, buffer, size - 1);
    buffer[length < 0 ? 0 : length] = 0;
    return buffer;
}

static int fault_of(const char *call, int fd) {
    char path[4096];
    return getenv("CHOMP_TEST_FAULTS") && fault(call, path_of(fd, path, sizeof path));
}

static int fault_at(const char *call, int folder, const char *name) {
    char path[8192];
    path_of(folder, path, 4096);
    strcat(path, "/");
    strncat(path, name, 4000);
    return fault(call, path);
}

int openat(int folder, const char *name, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    if (fault_at("open", folder, name)) return -1;
    return syscall(SYS_openat, folder, name, flags, mode);
}

int openat64(int folder, const char *name, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    return openat(folder, name, flags, mode);
}

int fsync(int fd) {
    if (fault_of("sync", fd)) return -1;
    return syscall(SYS_fsync, fd);
}

int flock(int fd, int operation) {
    if (fault_of("lock", fd)) return -1;
    return syscall(SYS_flock, fd, operation);
}

ssize_t read(int fd, void *bytes, size_t count) {
    if (fault_of("read", fd)) return -1;
    return syscall(SYS_read, fd, bytes, count);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    if (fault_of("write", fd)) return -1;
    return syscall(SYS_write, fd, bytes, count);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    if (fault_at("link", to_folder, to)) return -1;
    return syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

/* A thread has no path: each matches "/". */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (getenv("CHOMP_TEST_FAULTS") && fault("thread", "/")) return errno;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attributes, start, argument);
}
