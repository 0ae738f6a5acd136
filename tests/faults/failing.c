/* failing: a library to be preloaded, which makes the n-th call of a kind on a database's files fail, on demand.

   What fails, and how, stands in a small file that the test maps as well (FAILING_CONTROL): so a fault is set and lifted at run
   time, in the process that suffers it. Only files in one folder are concerned, told apart by the ends of their names.

   A short write writes the first half, and what is tried next on that file fails: so a page is torn, as a full disk does it.

   It can also make each flush of such a file slow, and set the wall clock of the process that loads it.

   Rule of this file: where nothing is set, a call costs a look at one number and goes on to the C library. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, READ = 2, WRITE = 4, SHORT = 8, SYNC = 16, TRUNCATE = 32, LOCK = 64, MAP = 128, REMOVE = 256 };
enum { MAIN = 1, WAL = 2, SHM = 4, JOURNAL = 8 };

/* Laid out as `Control` in shim.py. */
struct control {
    int armed, calls, files, error, sticky, torn_fd;
    long nth, thread, seen, fired, sync_us, clock_s;
    char folder[1024];
};

#define MOST_FILES 65536
static unsigned char kind_of[MOST_FILES];
static volatile struct control *control;

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILING_CONTROL");
    if (!path) return;
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (found != MAP_FAILED) control = found;
}

static int ends_with(const char *path, const char *end) {
    size_t length = strlen(path), tail = strlen(end);
    return length >= tail && !strcmp(path + length - tail, end);
}

static int kind_of_path(const char *path) {
    if (!control || !path || !control->folder[0]) return 0;
    if (strncmp(path, (const char *)control->folder, strlen((const char *)control->folder))) return 0;
    if (ends_with(path, ".db")) return MAIN;
    if (ends_with(path, "-wal")) return WAL;
    if (ends_with(path, "-shm")) return SHM;
    if (ends_with(path, "-journal")) return JOURNAL;
    return 0;
}

static int kind_of_file(int file) { return file >= 0 && file < MOST_FILES ? kind_of[file] : 0; }

/* Whether this call is to fail: it is of the kind that is asked for, and its turn has come. */
static int fails(int call, int kind) {
    if (!kind || !control || !control->armed) return 0;
    if (!(control->calls & call) || !(control->files & kind)) return 0;
    /* This thread, or below zero: all but this one. */
    long thread = control->thread, mine = thread ? (long)syscall(SYS_gettid) : 0;
    if (thread > 0 && thread != mine) return 0;
    if (thread < 0 && thread == -mine) return 0;
    long seen = __sync_add_and_fetch(&control->seen, 1);
    if (seen != control->nth && !(control->sticky && seen > control->nth)) return 0;
    __sync_add_and_fetch(&control->fired, 1);
    errno = control->error;
    return 1;
}

static int remember(int file, int kind) {
    if (file >= 0 && file < MOST_FILES) kind_of[file] = (unsigned char)kind;
    return file;
}

#define OPENS(name)                                     \
    int name(const char *path, int flags, ...) {        \
        REAL(name);                                     \
        va_list rest;                                   \
        va_start(rest, flags);                          \
        mode_t mode = (mode_t)va_arg(rest, int);        \
        va_end(rest);                                   \
        int kind = kind_of_path(path);                  \
        if (fails(OPEN, kind)) return -1;               \
        return remember(real(path, flags, mode), kind); \
    }
OPENS(open)
OPENS(open64)

int close(int file) {
    REAL(close);
    remember(file, 0);
    return real(file);
}

#define READS(name, offset_type)                                             \
    ssize_t name(int file, void *buffer, size_t size, offset_type offset) { \
        REAL(name);                                                          \
        if (fails(READ, kind_of_file(file))) return -1;                      \
        return real(file, buffer, size, offset);                             \
    }
READS(pread, off_t)
READS(pread64, off64_t)

ssize_t read(int file, void *buffer, size_t size) {
    REAL(read);
    if (fails(READ, kind_of_file(file))) return -1;
    return real(file, buffer, size);
}

/* 1: write all; 0: fail; -1: write a half. */
static int writes(int file) {
    int kind = kind_of_file(file);
    if (!kind || !control) return 1;
    if (control->torn_fd == file + 1) {
        control->torn_fd = 0;
        errno = control->error;
        return 0;
    }
    if (fails(WRITE, kind)) return 0;
    if (fails(SHORT, kind)) {
        control->torn_fd = file + 1;
        return -1;
    }
    return 1;
}

#define WRITES(name, offset_type)                                                  \
    ssize_t name(int file, const void *buffer, size_t size, offset_type offset) { \
        REAL(name);                                                                \
        int part = writes(file);                                                   \
        if (!part) return -1;                                                      \
        return real(file, buffer, part < 0 ? size / 2 : size, offset);             \
    }
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

ssize_t write(int file, const void *buffer, size_t size) {
    REAL(write);
    int part = writes(file);
    if (!part) return -1;
    return real(file, buffer, part < 0 ? size / 2 : size);
}

#define SYNCS(name)                                                                               \
    int name(int file) {                                                                          \
        REAL(name);                                                                               \
        if (control && control->sync_us && kind_of_file(file)) usleep((useconds_t)control->sync_us); \
        if (fails(SYNC, kind_of_file(file))) return -1;                                           \
        return real(file);                                                                        \
    }
SYNCS(fsync)
SYNCS(fdatasync)

#define TRUNCATES(name, offset_type)                        \
    int name(int file, offset_type size) {                  \
        REAL(name);                                         \
        if (fails(TRUNCATE, kind_of_file(file))) return -1; \
        return real(file, size);                            \
    }
TRUNCATES(ftruncate, off_t)
TRUNCATES(ftruncate64, off64_t)

/* A lock that cannot be had; giving one up does not fail anywhere. */
#define LOCKS(name)                                                                                       \
    int name(int file, int command, ...) {                                                                \
        REAL(name);                                                                                       \
        va_list rest;                                                                                     \
        va_start(rest, command);                                                                          \
        void *argument = va_arg(rest, void *);                                                            \
        va_end(rest);                                                                                     \
        if (command == F_SETLK && ((struct flock *)argument)->l_type != F_UNLCK && fails(LOCK, kind_of_file(file))) \
            return -1;                                                                                    \
        return real(file, command, argument);                                                             \
    }
LOCKS(fcntl)
LOCKS(fcntl64)

#define MAPS(name, offset_type)                                                                        \
    void *name(void *address, size_t size, int protection, int flags, int file, offset_type offset) { \
        REAL(name);                                                                                    \
        if (fails(MAP, kind_of_file(file))) return MAP_FAILED;                                         \
        return real(address, size, protection, flags, file, offset);                                   \
    }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

/* What waits for a time counts by another clock. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int result = real(clock, now);
    if (control && clock == CLOCK_REALTIME && !result) now->tv_sec += control->clock_s;
    return result;
}

int unlink(const char *path) {
    REAL(unlink);
    if (fails(REMOVE, kind_of_path(path))) return -1;
    return real(path);
}
