/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What comes of a process that asks servers, whatever it does: here it does what a test says. With real servers it is
 * tests/cli/test-debuginfod.py. The file that is wanted is one of tests/fixtures/lines.
 */

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "debuginfod.h"

/* A sanitizer reserves more memory than there is. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define NSEC_PER_SEC UINT64_C(1000000000)
/* Far more than any of it takes, unless it should be given up on. */
#define LONG (300 * NSEC_PER_SEC)
#define SHORT (NSEC_PER_SEC / 5)

typedef int (*FindFunc)(const DebuginfodClient *client, const uint8_t *id, size_t len);

static char *fixture(char *path, const char *name) {
        (void) snprintf(path, PATH_MAX, "%s/%s", getenv("FIXTURES"), name);
        return path;
}

static int open_fixture(const char *name) {
        char path[PATH_MAX];

        return open(fixture(path, name), O_RDONLY | O_CLOEXEC);
}

/* The build id of c-5, which all ask for; memory that stays. */
static const uint8_t *wanted(size_t *ret_len) {
        static uint8_t id[ELF_BUILD_ID_MAX];
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;
        const uint8_t *found;

        assert_return_code(elf_file_new_take_fd(&elf, open_fixture("c-5")), 0);
        *ret_len = elf_file_get_build_id(elf, &found);
        assert_in_range(*ret_len, DEBUGINFOD_ID_MIN, DEBUGINFOD_ID_MAX);
        memcpy(id, found, *ret_len);
        return id;
}

static int ask(Debuginfod *debuginfod, ElfFile **ret) {
        DebuginfodRequest request = { .deadline = UINT64_MAX };

        request.id = wanted(&request.id_len);
        return debuginfod_open(debuginfod, &request, ret);
}

static Debuginfod make(FindFunc find, uint64_t timeout) {
        return (Debuginfod){ .urls = "http://nowhere", .timeout = timeout, .find = find };
}

/* ---- a place of its own for each ---- */

static int setup(void **state) {
        char *dir = strdup("/tmp/test-debuginfod-XXXXXX");

        if (!dir || !mkdtemp(dir) || setenv("DEBUGINFOD_CACHE_PATH", dir, 1) < 0)
                return -1;
        *state = dir;
        return 0;
}

static int teardown(void **state) {
        char command[PATH_MAX];

        (void) snprintf(command, sizeof(command), "rm -rf '%s'", (char *) *state);
        free(*state);
        return system(command);
}

static char *cached(char *path, const char *dir) {
        char hex[2 * DEBUGINFOD_ID_MAX + 1];
        size_t len;
        const uint8_t *id = wanted(&len);

        for (size_t i = 0; i < len; i++)
                (void) snprintf(hex + 2 * i, 3, "%02x", id[i]);
        (void) snprintf(path, PATH_MAX, "%s/%s", dir, hex);
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        (void) snprintf(path, PATH_MAX, "%s/%s/debuginfo", dir, hex);
        return path;
}

static void put(const char *path, const char *name) {
        char from[PATH_MAX], command[3 * PATH_MAX];

        (void) snprintf(command, sizeof(command), "cp '%s' '%s'", fixture(from, name), path);
        assert_int_equal(system(command), 0);
}

static unsigned count_fds(void) {
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        (void) closedir(dir);
        return n;
}

/* ---- what the process may do ---- */

static int find_it(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return open_fixture("c-5");
}

static int find_other(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        put(client->cache_path, "c-4");
        return open(client->cache_path, O_RDWR | O_CLOEXEC);
}

static int find_writable(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        put(client->cache_path, "c-5");
        return open(client->cache_path, O_RDWR | O_CLOEXEC);
}

static int find_no_elf(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return open_fixture("c-5.nm");
}

static int find_no_file(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return open("/dev/zero", O_RDONLY | O_CLOEXEC);
}

static int find_unknown(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return -ENOENT;
}

static int find_too_much(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return -EFBIG;
}

static int find_refused(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return -ECONNREFUSED;
}

static int find_no_memory(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return -ENOMEM;
}

static int find_no_library(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return -ENOPKG;
}

static int fall(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        _exit(0);
}

static int hang(_unused_ const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        while (pause() < 0)
                ;
        return -EIO;
}

/* For ever, whether or not it is told to end. */
static int tell(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        for (uint64_t i = 1; i > 0; i++)
                (void) client->progress(i, 0, client->userdata);
        return -EIO;
}

/* Until it is told to end, as the library does. */
static int obey(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        while (client->progress(1, 2, client->userdata) >= 0)
                (void) poll(NULL, 0, 10);
        return -ECANCELED;
}

/* One that was taken over says what it likes, on the socket that we know to be what reports begin with. */
typedef struct Said {
        uint32_t is_end;
        int32_t result;
        uint64_t done, total;
} Said;

static void say(const DebuginfodClient *client, const void *data, size_t size, const int *fds, size_t n) {
        struct iovec iov = { .iov_base = (void *) data, .iov_len = size };
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(4 * sizeof(int))];
        } control = {};
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

        if (n > 0) {
                control.header = (struct cmsghdr){
                        .cmsg_level = SOL_SOCKET,
                        .cmsg_type = SCM_RIGHTS,
                        .cmsg_len = CMSG_LEN(n * sizeof(int)),
                };
                memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
                msg.msg_control = &control;
                msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        }
        if (sendmsg(*(const int *) client->userdata, &msg, 0) < 0)
                _exit(1);
}

static int say_nothing_there(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        say(client, &(Said){ .is_end = 1 }, sizeof(Said), NULL, 0);
        return hang(client, id, len);
}

static int say_short(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        int fd = open_fixture("c-5");

        say(client, &(Said){ .is_end = 1 }, sizeof(Said) - 1, &fd, 1);
        return hang(client, id, len);
}

static int say_nonsense(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        say(client, &(Said){ .is_end = 1, .result = INT_MIN }, sizeof(Said), NULL, 0);
        return hang(client, id, len);
}

static int say_failed_with_file(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        int fd = open_fixture("c-5");

        say(client, &(Said){ .is_end = 1, .result = -EIO }, sizeof(Said), &fd, 1);
        return hang(client, id, len);
}

/* For ever: nothing of it may be left open, by the thousand. */
static int say_with_files(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        int fds[] = { open_fixture("c-5"), open_fixture("c-5"), open_fixture("c-5"), open_fixture("c-5") };

        for (unsigned i = 0; i < 10000; i++)
                say(client, &(Said){ .done = i }, sizeof(Said), fds, i % ELEMENTSOF(fds) + 1);
        say(client, &(Said){ .is_end = 1 }, sizeof(Said), fds, 2);
        return hang(client, id, len);
}

static int say_other(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        int fd = open_fixture("c-4");

        say(client, &(Said){ .is_end = 1 }, sizeof(Said), &fd, 1);
        return hang(client, id, len);
}

/* ---- the tests ---- */

static void test_found(_unused_ void **state) {
        static const FindFunc funcs[] = { find_it, find_writable };

        for (size_t i = 0; i < ELEMENTSOF(funcs); i++) {
                _cleanup_(elf_file_freep) ElfFile *elf = NULL;
                Debuginfod debuginfod = make(funcs[i], LONG);
                char path[PATH_MAX];

                (void) cached(path, getenv("DEBUGINFOD_CACHE_PATH"));
                assert_int_equal(ask(&debuginfod, &elf), 0);
                assert_int_equal(elf_file_has_section(elf, ".debug_info"), 1);
                assert_int_equal(fcntl(elf_file_get_fd(elf), F_GETFL) & O_ACCMODE, O_RDONLY);
                assert_true(fcntl(elf_file_get_fd(elf), F_GETFD) & FD_CLOEXEC);
                assert_int_equal(debuginfod.asked, 1);
                assert_int_equal(debuginfod.fetched, 1);
                assert_int_equal(debuginfod.failures, 0);
        }
}

static void test_not_found(void **state) {
        static const struct {
                FindFunc find;
                uint64_t timeout;
                unsigned unknown, failed, given_up, failures;
        } cases[] = {
                { find_unknown, LONG, 1, 0, 0, 0 },
                { find_too_much, LONG, 0, 1, 0, 0 },
                { find_refused, LONG, 0, 1, 0, 1 },
                { find_no_memory, LONG, 0, 1, 0, 1 },
                { find_other, LONG, 0, 1, 0, 1 },
                { find_no_elf, LONG, 0, 1, 0, 1 },
                { find_no_file, LONG, 0, 1, 0, 1 },
                { fall, LONG, 0, 1, 0, 1 },
                { say_nothing_there, LONG, 0, 1, 0, 1 },
                { say_short, LONG, 0, 1, 0, 1 },
                { say_nonsense, LONG, 0, 1, 0, 1 },
                { say_failed_with_file, LONG, 0, 1, 0, 1 },
                { say_with_files, LONG, 0, 1, 0, 1 },
                { say_other, LONG, 0, 1, 0, 1 },
                { hang, SHORT, 0, 0, 1, 1 },
                { hang, 0, 0, 0, 1, 1 },
                { tell, SHORT, 0, 0, 1, 1 },
                { obey, SHORT, 0, 0, 1, 1 },
        };
        unsigned fds = count_fds();

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Debuginfod debuginfod = make(cases[i].find, cases[i].timeout);
                ElfFile *elf = NULL;
                char path[PATH_MAX];

                (void) cached(path, *state);
                assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
                assert_null(elf);
                if (debuginfod.asked != 1 || debuginfod.fetched != 0 || debuginfod.unknown != cases[i].unknown ||
                    debuginfod.failed != cases[i].failed || debuginfod.given_up != cases[i].given_up ||
                    debuginfod.failures != cases[i].failures)
                        fail_msg("case %zu is taken for something else", i);
                assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
                assert_int_equal(errno, ECHILD);
                assert_int_equal(access(path, F_OK), -1); /* a lie that was kept would be found again */
        }
        assert_int_equal(count_fds(), fds);
}

/* Servers that seem to be dead are not asked for all that there is. */
static void test_dead(_unused_ void **state) {
        Debuginfod debuginfod = make(fall, LONG);
        _cleanup_(elf_file_freep) ElfFile *elf = NULL;

        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        debuginfod.find = find_unknown;
        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        debuginfod.find = fall;
        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        debuginfod.find = find_it;
        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        assert_int_equal(debuginfod.asked, 4);
        assert_int_equal(debuginfod.failed, 3);
        assert_int_equal(debuginfod.not_asked, 1);
        debuginfod.failures = 0;
        debuginfod.asked = DEBUGINFOD_ASKED_MAX;
        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        assert_int_equal(debuginfod.not_asked, 2);
}

static void test_no_library(_unused_ void **state) {
        Debuginfod debuginfod = make(find_no_library, LONG);
        ElfFile *elf = NULL;

        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        assert_true(debuginfod.is_missing);
        debuginfod.find = find_it;
        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        assert_int_equal(debuginfod.asked, 0);
}

/* Without servers, without a build id, and without one that servers could know. */
static void test_nobody(_unused_ void **state) {
        static const uint8_t id[ELF_BUILD_ID_MAX] = { 1 };
        static const struct {
                const char *urls;
                size_t len;
        } cases[] = { { NULL, 20 }, { "", 20 }, { "x", 0 }, { "x", 7 }, { "x", 33 }, { "x", 64 } };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Debuginfod debuginfod = { .urls = cases[i].urls, .timeout = LONG, .find = find_it };
                DebuginfodRequest request = { .id = id, .id_len = cases[i].len, .deadline = UINT64_MAX };
                ElfFile *elf = NULL;

                assert_int_equal(debuginfod_open(&debuginfod, &request, &elf), -ENOENT);
                assert_int_equal(debuginfod.asked, 0);
                assert_int_equal(debuginfod.not_asked, 0);
        }
}

/* As the library has it, and nobody is asked. */
static void test_cache(void **state) {
        static const struct {
                const char *variables[2], *dir;
        } cases[] = {
                { { "DEBUGINFOD_CACHE_PATH" }, "" },
                { { "XDG_CACHE_HOME" }, "/debuginfod_client" },
                { { "HOME" }, "/.cache/debuginfod_client" },
                { { "HOME", "XDG_CACHE_HOME" }, "/debuginfod_client" },
                { { "HOME", "XDG_CACHE_HOME" }, "/.debuginfod_client_cache" },
                { { "HOME", "DEBUGINFOD_CACHE_PATH" }, "" },
        };
        char dir[PATH_MAX], path[PATH_MAX];

        (void) snprintf(path, sizeof(path), "%s/.cache", (char *) *state);
        assert_return_code(mkdir(path, 0700), errno);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Debuginfod debuginfod = { .urls = "", .find = find_it };
                ElfFile *elf = NULL;

                assert_return_code(unsetenv("DEBUGINFOD_CACHE_PATH") | unsetenv("XDG_CACHE_HOME") |
                                           setenv("HOME", "/nonexistent", 1),
                                   errno);
                for (size_t k = 0; k < 2 && cases[i].variables[k]; k++)
                        assert_return_code(setenv(cases[i].variables[k], *state, 1), errno);
                (void) snprintf(dir, sizeof(dir), "%s%s", (char *) *state, cases[i].dir);
                assert_true(mkdir(dir, 0700) == 0 || errno == EEXIST);
                (void) cached(path, dir);
                assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
                assert_return_code(mkfifo(path, 0600), errno); /* which nobody writes to */
                assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
                assert_return_code(unlink(path), errno);
                assert_return_code(symlink(path, path), errno);
                assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
                assert_return_code(unlink(path), errno);
                put(path, "c-4");
                assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
                put(path, "c-5");
                assert_int_equal(ask(&debuginfod, &elf), 0);
                elf_file_free(elf);
                assert_int_equal(debuginfod.asked, 0);
                assert_return_code(unlink(path), errno);
        }
}

static void note(uint64_t done, uint64_t total, void *userdata) {
        uint64_t *seen = userdata;

        if (done == 1 && total == 2)
                (*seen)++;
}

static void test_progress(_unused_ void **state) {
        uint64_t seen = 0;

        /* Longer where a machine at work has not come to it. */
        for (uint64_t timeout = NSEC_PER_SEC / 2; seen == 0 && timeout < 100 * NSEC_PER_SEC; timeout *= 4) {
                Debuginfod debuginfod = make(obey, timeout);
                ElfFile *elf = NULL;

                debuginfod.progress = note;
                debuginfod.userdata = &seen;
                assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        }
        assert_true(seen > 0);
}

static int obey_and_tell(const DebuginfodClient *client, const uint8_t *id, size_t len) {
        int r = obey(client, id, len);

        (void) close(open(client->cache_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        return r;
}

/* It can end by itself before it is killed; unless that is already too late on a machine at work. */
static void test_grace(void **state) {
        char path[PATH_MAX];

        (void) cached(path, *state);
        for (uint64_t timeout = NSEC_PER_SEC; access(path, F_OK) < 0 && timeout < 100 * NSEC_PER_SEC; timeout *= 4) {
                Debuginfod debuginfod = make(obey_and_tell, timeout);
                ElfFile *elf = NULL;

                assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
                assert_int_equal(debuginfod.given_up, 1);
        }
        assert_return_code(access(path, F_OK), errno);
}

/* The deadline of all that is asked comes first. */
static void test_deadline(_unused_ void **state) {
        Debuginfod debuginfod = make(hang, LONG);
        DebuginfodRequest request = { .deadline = now_ns(CLOCK_MONOTONIC) + SHORT };
        ElfFile *elf = NULL;

        request.id = wanted(&request.id_len);
        assert_int_equal(debuginfod_open(&debuginfod, &request, &elf), -ENOENT);
        assert_int_equal(debuginfod.given_up, 1);
}

/* Each bit of the end: something that must not be possible is, or the other way round. */
static int attack(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {};
        unsigned possible = 0;
        struct rlimit core;
        char target[64] = "";
        int file;

        for (int fd = 0; fd < 3; fd++) {
                char link[64];

                (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
                possible |= readlink(link, target, sizeof(target) - 1) < 0 || strcmp(target, "/dev/null") != 0;
        }
        for (int fd = 3; fd < 100; fd++)
                possible |= (fd != *(const int *) client->userdata && fcntl(fd, F_GETFD) >= 0) << 1;
        file = open(client->cache_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        possible |= (file < 0) << 2;
        possible |= (pwrite(file, "x", 1, DEBUGINFOD_SIZE_MAX) >= 0 || errno != EFBIG) << 3;
        possible |= (pwrite(file, "x", 1, DEBUGINFOD_SIZE_MAX - 1) < 0) << 4;
        possible |= (unlink(client->cache_path) < 0) << 5;
        possible |= (getrlimit(RLIMIT_CORE, &core) < 0 || core.rlim_max > 0) << 6;
        possible |= (!SANITIZED && mmap(NULL, DEBUGINFOD_SIZE_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                                 -1, 0) != MAP_FAILED) << 7;
        possible |= (syscall(SYS_capget, &header, caps) < 0 || caps[0].permitted != 0 || caps[1].permitted != 0) << 8;
        (void) raise(SIGINT);
        (void) raise(SIGHUP);
        for (size_t i = 0; i < 8 * sizeof(possible); i++)
                if (possible & 1U << i)
                        (void) client->progress(i + 1, 0, client->userdata);
        return -EFBIG;
}

static void fail_at(uint64_t done, _unused_ uint64_t total, _unused_ void *userdata) {
        fail_msg("bit %u is possible", (unsigned) done - 1);
}

static void test_confined(_unused_ void **state) {
        int inherited = open("/dev/null", O_RDWR); /* not to be closed by an exec, either */
        Debuginfod debuginfod = make(attack, LONG);
        char path[PATH_MAX];
        ElfFile *elf = NULL;

        assert_return_code(inherited, errno);
        (void) cached(path, getenv("DEBUGINFOD_CACHE_PATH"));
        debuginfod.progress = fail_at;
        assert_int_equal(ask(&debuginfod, &elf), -ENOENT);
        assert_int_equal(debuginfod.failed, 1);
        assert_int_equal(debuginfod.failures, 0); /* it has come to its end */
        (void) close(inherited);
}

/* It holds a lock for as long as it lives; then whoever waits for that gets it. */
static int lock_and(const DebuginfodClient *client, FindFunc next) {
        int fd = open(client->cache_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        if (fd < 0 || lockf(fd, F_LOCK, 0) < 0 || write(fd, "x", 1) != 1)
                _exit(1);
        return next(client, NULL, 0);
}

static int lock_and_obey(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return lock_and(client, obey);
}

static int lock_and_hang(const DebuginfodClient *client, _unused_ const uint8_t *id, _unused_ size_t len) {
        return lock_and(client, hang);
}

/* Whoever asked is killed: soon after that who asks servers is gone, at the latest when its time is over. */
static void test_ends_with_us(_unused_ void **state) {
        static const struct {
                FindFunc find;
                uint64_t timeout;
        } cases[] = { { lock_and_obey, LONG }, { lock_and_hang, 5 * NSEC_PER_SEC } };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char path[PATH_MAX];
                struct stat st = {};
                pid_t pid;
                int fd;

                fd = open(cached(path, getenv("DEBUGINFOD_CACHE_PATH")), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
                assert_return_code(fd, errno);
                pid = fork();
                assert_return_code(pid, errno);
                if (pid == 0) {
                        Debuginfod debuginfod = make(cases[i].find, cases[i].timeout);
                        ElfFile *elf;

                        (void) ask(&debuginfod, &elf);
                        _exit(1);
                }
                while (st.st_size == 0 && waitpid(pid, NULL, WNOHANG) == 0) {
                        (void) poll(NULL, 0, 10);
                        assert_return_code(fstat(fd, &st), errno);
                }
                assert_int_equal(st.st_size, 1);
                assert_return_code(kill(pid, SIGKILL), errno);
                assert_int_equal(waitpid(pid, NULL, 0), pid);
                (void) alarm(120); /* rather than for ever */
                assert_return_code(lockf(fd, F_LOCK, 0), errno);
                (void) alarm(0);
                (void) close(fd);
                assert_return_code(unlink(path), errno);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_found, setup, teardown),
                cmocka_unit_test_setup_teardown(test_not_found, setup, teardown),
                cmocka_unit_test_setup_teardown(test_dead, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_library, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cache, setup, teardown),
                cmocka_unit_test_setup_teardown(test_progress, setup, teardown),
                cmocka_unit_test_setup_teardown(test_grace, setup, teardown),
                cmocka_unit_test_setup_teardown(test_deadline, setup, teardown),
                cmocka_unit_test_setup_teardown(test_confined, setup, teardown),
                cmocka_unit_test_setup_teardown(test_ends_with_us, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
