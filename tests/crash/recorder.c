/* The recorder: what a process asks of the file system in one folder, written down in the order in which it happened.
 *
 * It is loaded before libc (LD_PRELOAD) and stands between SQLite and the system calls that change files. Nothing is
 * recorded until recorder_begin names a folder and a file to write the trace to; a process that forks goes on recording
 * into the same trace.
 *
 * One order: each call is carried out and written down while two locks are held, a mutex against other threads and a POSIX
 * lock on the trace against other processes. So the trace is the order in which the file system saw the calls.
 *
 * A flush (fsync, fdatasync) is written down and not carried out: the disk is simulated from the trace, and the real one
 * need not be waited for. recorder_fail_sync makes some of them fail.
 *
 * Not recorded: what is read, locks, and files that end in "-shm" (the shared memory of a write-ahead log is made anew from
 * the log when nobody has it open, so that a power cut cannot leave one that counts). A call that changes files and is not
 * here (writev, sendfile, mmap to write) is one that SQLite does not make.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { OPEN = 1, CREATE, WRITE, RESIZE, SYNC, SYNC_FOLDER, UNLINK, RENAME, SYNC_FAILED };

/* Little-endian on every machine that this runs on; `recording.py` reads it. */
struct record {
    uint64_t operation;
    uint64_t inode;
    int64_t offset;      /* of a write; the new size of a resize */
    uint64_t name_bytes; /* of the name that follows; of a rename, both, with a NUL between */
    uint64_t data_bytes; /* of the data that follow the name */
};

#define MOST_FDS 4096
/* What each descriptor is: 0 nothing of ours, 1 the folder, 2 a file in it. */
static unsigned char kinds[MOST_FDS];
static uint64_t inodes[MOST_FDS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static char folder[PATH_MAX];
static size_t folder_bytes;
/* Flushes, of files whose names end in `failing_suffix`, that succeed before some fail, and how many then do. */
static long syncs_before_failure;
static long failures_left;
static char failing_suffix[64];

static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fallocate)(int, int, off_t, off_t);
static int (*real_posix_fallocate)(int, off_t, off_t);
static int (*real_unlink)(const char *);
static int (*real_unlinkat)(int, const char *, int);
static int (*real_rename)(const char *, const char *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

static void find(void *slot, const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(slot, &found, sizeof found);
}

__attribute__((constructor)) static void find_all(void) {
    find(&real_open, "open64");
    find(&real_openat, "openat64");
    find(&real_close, "close");
    find(&real_write, "write");
    find(&real_pwrite, "pwrite64");
    find(&real_ftruncate, "ftruncate64");
    find(&real_fallocate, "fallocate64");
    find(&real_posix_fallocate, "posix_fallocate64");
    find(&real_unlink, "unlink");
    find(&real_unlinkat, "unlinkat");
    find(&real_rename, "rename");
    find(&real_fsync, "fsync");
    find(&real_fdatasync, "fdatasync");
}

static void lock_trace(short how) {
    struct flock range = {.l_type = how, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    while (fcntl(trace, F_SETLKW, &range) == -1 && errno == EINTR) {
    }
}

static void enter(void) {
    pthread_mutex_lock(&mutex);
    lock_trace(F_WRLCK);
}

static void leave(void) {
    int kept = errno;
    lock_trace(F_UNLCK);
    pthread_mutex_unlock(&mutex);
    errno = kept;
}

static void put(const void *bytes, size_t count) {
    while (count) {
        ssize_t done = real_write(trace, bytes, count);
        if (done < 0) {
            if (errno == EINTR) continue;
            abort(); /* A trace with a hole would be judged as if it had none. */
        }
        bytes = (const char *)bytes + done;
        count -= (size_t)done;
    }
}

static void note(uint64_t operation, uint64_t inode, int64_t offset, const char *name, size_t name_bytes,
                 const void *data, size_t data_bytes) {
    int kept = errno;
    struct record record = {operation, inode, offset, name_bytes, data_bytes};
    put(&record, sizeof record);
    if (name_bytes) put(name, name_bytes);
    if (data_bytes) put(data, data_bytes);
    errno = kept;
}

/* The name of a file within the folder, or NULL for what is elsewhere or shared memory. */
static const char *name_of(const char *path) {
    if (trace < 0 || strncmp(path, folder, folder_bytes) != 0 || path[folder_bytes] != '/') return NULL;
    const char *name = path + folder_bytes + 1;
    size_t length = strlen(name);
    if (!length || strchr(name, '/')) return NULL;
    if (length >= 4 && strcmp(name + length - 4, "-shm") == 0) return NULL;
    return name;
}

static int kind_of(int fd) { return trace >= 0 && fd >= 0 && fd < MOST_FDS ? kinds[fd] : 0; }

static void remember(int fd, int kind, const char *name, int was_there) {
    struct stat status;
    if (fd < 0) return;
    if (fd >= MOST_FDS || fstat(fd, &status)) abort();
    kinds[fd] = (unsigned char)kind;
    inodes[fd] = status.st_ino;
    if (kind == 2) note(was_there ? OPEN : CREATE, status.st_ino, status.st_size, name, strlen(name), NULL, 0);
}

/* ------------------------------------------------------------------------------------------------------------ */
/* For the test */

int recorder_begin(const char *watched, const char *trace_path) {
    pthread_mutex_lock(&mutex);
    if (trace >= 0) real_close(trace);
    trace = -1;
    memset(kinds, 0, sizeof kinds);
    snprintf(folder, sizeof folder, "%s", watched);
    folder_bytes = strlen(folder);
    failures_left = 0;
    int fd = real_open(trace_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    /* Out of the way: a program may count on the lowest numbers. */
    trace = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 1000);
    if (fd >= 0) real_close(fd);
    pthread_mutex_unlock(&mutex);
    return trace < 0 ? -1 : 0;
}

/* After `before` flushes of files whose names end in `suffix`, `failures` of them fail. */
void recorder_fail_sync(long before, long failures, const char *suffix) {
    pthread_mutex_lock(&mutex);
    syncs_before_failure = before;
    failures_left = failures;
    snprintf(failing_suffix, sizeof failing_suffix, "%s", suffix);
    pthread_mutex_unlock(&mutex);
}

/* ------------------------------------------------------------------------------------------------------------ */
/* Names */

static int opened(int directory, const char *path, int flags, mode_t mode) {
    const char *name = directory == AT_FDCWD || path[0] == '/' ? name_of(path) : NULL;
    int is_folder = trace >= 0 && !name && strcmp(path, folder) == 0;
    struct stat status;
    if (!name && !is_folder) return real_openat(directory, path, flags, mode);
    enter();
    int was_there = is_folder || stat(path, &status) == 0;
    int fd = real_openat(directory, path, flags, mode);
    remember(fd, is_folder ? 1 : 2, name, was_there);
    if (fd >= 0 && name && was_there && (flags & O_TRUNC)) note(RESIZE, inodes[fd], 0, NULL, 0, NULL, 0);
    leave();
    return fd;
}

#define MODE(flags)                             \
    mode_t mode = 0;                            \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {    \
        va_list arguments;                      \
        va_start(arguments, flags);             \
        mode = (mode_t)va_arg(arguments, int);  \
        va_end(arguments);                      \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }

int close(int fd) {
    /* Before the number is free: another thread may be given it at once. */
    if (kind_of(fd)) kinds[fd] = 0;
    return real_close(fd);
}

int unlink(const char *path) {
    const char *name = name_of(path);
    if (!name) return real_unlink(path);
    enter();
    int result = real_unlink(path);
    if (result == 0) note(UNLINK, 0, 0, name, strlen(name), NULL, 0);
    leave();
    return result;
}

int unlinkat(int directory, const char *path, int flags) {
    if (directory == AT_FDCWD && !(flags & AT_REMOVEDIR)) return unlink(path);
    return real_unlinkat(directory, path, flags);
}

int rename(const char *old, const char *new) {
    const char *from = name_of(old), *to = name_of(new);
    char both[2 * NAME_MAX + 2];
    if (!from || !to) return real_rename(old, new);
    enter();
    int result = real_rename(old, new);
    if (result == 0) {
        int length = snprintf(both, sizeof both, "%s%c%s", from, 0, to);
        note(RENAME, 0, 0, both, (size_t)length, NULL, 0);
    }
    leave();
    return result;
}

/* ------------------------------------------------------------------------------------------------------------ */
/* Contents */

ssize_t write(int fd, const void *data, size_t count) {
    if (kind_of(fd) != 2) return real_write(fd, data, count);
    enter();
    ssize_t done = real_write(fd, data, count);
    if (done > 0) note(WRITE, inodes[fd], lseek(fd, 0, SEEK_CUR) - done, NULL, 0, data, (size_t)done);
    leave();
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset) {
    if (kind_of(fd) != 2) return real_pwrite(fd, data, count, offset);
    enter();
    ssize_t done = real_pwrite(fd, data, count, offset);
    if (done > 0) note(WRITE, inodes[fd], offset, NULL, 0, data, (size_t)done);
    leave();
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset) { return pwrite64(fd, data, count, offset); }

int ftruncate64(int fd, off64_t size) {
    if (kind_of(fd) != 2) return real_ftruncate(fd, size);
    enter();
    int result = real_ftruncate(fd, size);
    if (result == 0) note(RESIZE, inodes[fd], size, NULL, 0, NULL, 0);
    leave();
    return result;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static void note_growth(int fd) {
    struct stat status;
    if (fstat(fd, &status)) abort();
    note(RESIZE, inodes[fd], status.st_size, NULL, 0, NULL, 0);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    if (kind_of(fd) != 2) return real_fallocate(fd, mode, offset, length);
    enter();
    int result = real_fallocate(fd, mode, offset, length);
    if (result == 0) note_growth(fd);
    leave();
    return result;
}

int fallocate(int fd, int mode, off_t offset, off_t length) { return fallocate64(fd, mode, offset, length); }

int posix_fallocate64(int fd, off64_t offset, off64_t length) {
    if (kind_of(fd) != 2) return real_posix_fallocate(fd, offset, length);
    enter();
    int result = real_posix_fallocate(fd, offset, length);
    if (result == 0) note_growth(fd);
    leave();
    return result;
}

int posix_fallocate(int fd, off_t offset, off_t length) { return posix_fallocate64(fd, offset, length); }

static int is_to_fail(int fd) {
    char link[64], path[PATH_MAX];
    if (!failures_left) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t wanted = strlen(failing_suffix);
    if (length < (ssize_t)wanted) return 0;
    path[length] = 0;
    if (strcmp(path + (size_t)length - wanted, failing_suffix) != 0) return 0;
    if (syncs_before_failure > 0) {
        syncs_before_failure--;
        return 0;
    }
    failures_left--;
    return 1;
}

static int synced(int fd) {
    int result = 0;
    enter();
    if (kinds[fd] == 1) {
        note(SYNC_FOLDER, 0, 0, NULL, 0, NULL, 0);
    } else if (is_to_fail(fd)) {
        note(SYNC_FAILED, inodes[fd], 0, NULL, 0, NULL, 0);
        result = -1;
        errno = EIO;
    } else {
        note(SYNC, inodes[fd], 0, NULL, 0, NULL, 0);
    }
    leave();
    return result;
}

int fsync(int fd) { return kind_of(fd) ? synced(fd) : real_fsync(fd); }
int fdatasync(int fd) { return kind_of(fd) ? synced(fd) : real_fdatasync(fd); }
