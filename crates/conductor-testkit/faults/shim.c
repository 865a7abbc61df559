/* Injects faults of the disk and the clock into a process (LD_PRELOAD).
 *
 * CONDUCTOR_FAULTS names a file of 16 bytes that the fault harness writes: the first byte selects the
 * fault, bytes 8 to 15 are the offset of the wall clock in milliseconds. A fault of writes or syncs
 * affects only files below CONDUCTOR_FAULTS_BELOW; CLOSES_LOST affects every descriptor.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NONE, FSYNC_FAILS, SHORT_WRITES, WRITES_FAIL, WRITES_LOST, CLOSES_LOST };

static volatile unsigned char *control;
static char below[4096];

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("CONDUCTOR_FAULTS");
    const char *folder = getenv("CONDUCTOR_FAULTS_BELOW");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0 || !folder) return;
    snprintf(below, sizeof below, "%s", folder);
    void *at = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    if (at != MAP_FAILED) control = at;
    close(file);
}

static int fault(int file) {
    if (!control || control[0] == NONE) return NONE;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return NONE;
    path[length] = 0;
    return strncmp(path, below, strlen(below)) == 0 ? control[0] : NONE;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *bytes, size_t count) {
    REAL(write);
    switch (fault(file)) {
    case SHORT_WRITES: return real(file, bytes, count > 1 ? count / 2 : count);
    case WRITES_FAIL: errno = EIO; return -1;
    case WRITES_LOST: return (ssize_t)count;
    default: return real(file, bytes, count);
    }
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    REAL(pwrite64);
    switch (fault(file)) {
    case SHORT_WRITES: return real(file, bytes, count > 1 ? count / 2 : count, at);
    case WRITES_FAIL: errno = EIO; return -1;
    case WRITES_LOST: return (ssize_t)count;
    default: return real(file, bytes, count, at);
    }
}

int fsync(int file) {
    REAL(fsync);
    if (fault(file) == FSYNC_FAILS) { errno = EIO; return -1; }
    return real(file);
}

int fdatasync(int file) {
    REAL(fdatasync);
    if (fault(file) == FSYNC_FAILS) { errno = EIO; return -1; }
    return real(file);
}

int close(int file) {
    REAL(close);
    if (control && control[0] == CLOSES_LOST) return 0;
    return real(file);
}

static time_t offset_seconds(void) {
    int64_t offset = 0;
    if (control) memcpy(&offset, (const void *)(control + 8), sizeof offset);
    return offset / 1000;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += offset_seconds();
    return result;
}

/* The kernel does not know the offset, so the end of a wait is converted back to the real clock. If the
 * clock of a whole machine jumps, its timed waits agree with its clock, too. libjack waits like this
 * for its server. Bit 1 of __wrefs marks a condition variable of glibc that uses the monotonic clock.
 * Symbols before version 2.3.2 expect another structure. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end) {
    static __typeof__(&pthread_cond_timedwait) real;
    if (!real) real = (__typeof__(real))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec converted = *end;
    if (!(condition->__data.__wrefs & 2)) converted.tv_sec -= offset_seconds();
    return real(condition, mutex, &converted);
}
