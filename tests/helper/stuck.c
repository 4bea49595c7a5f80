/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * stuck exec|memory DIR: a process of an ordinary user that does not get on, for a file system that this program
 * mounts on DIR (in namespaces of its own) never answers reads.
 *
 *      exec        stays in the middle of an exec, which waits for an asynchronous read that was begun before it
 *      memory      runs, until a byte comes on standard input; then it keeps the lock of its address space, in an
 *                  mmap() that waits for a page which is being read
 *
 * Prints the process's pid, and lets it go when standard input ends. Exits with 77 where there is no such file
 * system to be had.
 */

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NODE 2

static _Noreturn void fail(const char *what) {
        perror(what);
        exit(77);
}

static void write_file(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd < 0 || write(fd, text, strlen(text)) < 0)
                fail(path);
        close(fd);
}

/* Root of namespaces of its own, where everybody may mount this kind of file system. */
static void enter_namespaces(void) {
        char uids[32], gids[32];

        (void) snprintf(uids, sizeof(uids), "0 %d 1", getuid());
        (void) snprintf(gids, sizeof(gids), "0 %d 1", getgid());
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                fail("unshare");
        write_file("/proc/self/setgroups", "deny");
        write_file("/proc/self/uid_map", uids);
        write_file("/proc/self/gid_map", gids);
}

static struct fuse_attr attributes(uint64_t node) {
        return (struct fuse_attr){
                .ino = node,
                .size = 1 << 20,
                .mode = node == FILE_NODE ? S_IFREG | 0644 : S_IFDIR | 0755,
                .nlink = 1,
                .blksize = 4096,
        };
}

static void reply(int fd, uint64_t unique, const void *data, size_t size) {
        struct {
                struct fuse_out_header head;
                char data[256];
        } packet = {.head = {.len = sizeof(packet.head) + size, .unique = unique}};

        memcpy(packet.data, data, size);
        if (write(fd, &packet, packet.head.len) < 0)
                perror("reply");
}

/*
 * One directory with one file, under whatever name; reads wait, and each is told of on told_fd. Opened to append,
 * the file has no pages of its own: whoever maps it has those of others thrown out first.
 */
static void serve(int fd, int told_fd) {
        static char buffer[1 << 17];
        const struct fuse_in_header *in = (void *) buffer;

        while (read(fd, buffer, sizeof(buffer)) >= (ssize_t) sizeof(*in)) {
                struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .flags = FUSE_ASYNC_DIO,
                                             .max_background = 16, .congestion_threshold = 8, .max_write = 4096};
                struct fuse_entry_out entry = {.nodeid = FILE_NODE, .attr_valid = 1000, .entry_valid = 1000,
                                               .attr = attributes(FILE_NODE)};
                struct fuse_attr_out attr = {.attr_valid = 1000, .attr = attributes(in->nodeid)};
                const struct fuse_open_in *open_in = (const void *) (in + 1);
                struct fuse_open_out opened = {.fh = 1};

                switch (in->opcode) {
                case FUSE_INIT:
                        reply(fd, in->unique, &init, sizeof(init));
                        break;
                case FUSE_LOOKUP:
                        reply(fd, in->unique, &entry, sizeof(entry));
                        break;
                case FUSE_GETATTR:
                        reply(fd, in->unique, &attr, sizeof(attr));
                        break;
                case FUSE_OPEN:
                        if (open_in->flags & O_APPEND)
                                opened.open_flags = FOPEN_DIRECT_IO;
                        reply(fd, in->unique, &opened, sizeof(opened));
                        break;
                case FUSE_READ:
                        if (write(told_fd, "", 1) < 0)
                                perror("told");
                        break;
                default:
                        break;
                }
        }
}

static _Noreturn void stick_in_exec(const char *path) {
        aio_context_t context = 0;
        struct iocb read_one = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_nbytes = 4096}, *list = &read_one;
        int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);

        read_one.aio_fildes = fd;
        read_one.aio_buf = (uintptr_t) aligned_alloc(4096, 4096);
        if (fd < 0 || syscall(SYS_io_setup, 1, &context) < 0 || syscall(SYS_io_submit, context, 1, &list) != 1)
                fail(path);
        execl("/bin/sleep", "sleep", "1000", NULL);
        fail("exec");
}

static void *read_page(void *userdata) {
        char byte;

        (void) !read(*(int *) userdata, &byte, 1);
        return NULL;
}

static _Noreturn void stick_in_mmap(const char *path, int told_fd) {
        int read_fd = open(path, O_RDONLY | O_CLOEXEC), map_fd = open(path, O_RDONLY | O_APPEND | O_CLOEXEC);
        pthread_t thread;
        char byte;

        if (read_fd < 0 || map_fd < 0)
                fail(path);
        if (read(STDIN_FILENO, &byte, 1) == 1 && pthread_create(&thread, NULL, read_page, &read_fd) == 0 &&
            read(told_fd, &byte, 1) == 1)
                (void) mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, map_fd, 0);
        exit(0);
}

/* Standard input is the child's alone until it is stuck; an end of it is for us both. */
static void wait_for_end(void) {
        struct pollfd p = {.fd = STDIN_FILENO};

        while (poll(&p, 1, -1) < 0 || !(p.revents & POLLHUP))
                ;
}

int main(int argc, char *argv[]) {
        bool in_exec = argc == 3 && strcmp(argv[1], "exec") == 0;
        char path[4096], options[64];
        pid_t server, stuck;
        int fd, told[2];

        if (argc != 3)
                return 2;
        enter_namespaces();
        fd = open("/run/fuse", O_RDWR | O_CLOEXEC);
        (void) snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0", fd);
        if (fd < 0 || mount("stuck", argv[2], "fuse", 0, options) < 0 || pipe2(told, O_CLOEXEC) < 0)
                fail("/run/fuse");
        (void) snprintf(path, sizeof(path), "%s/file", argv[2]);
        server = fork();
        if (server == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                serve(fd, told[1]);
                _exit(0);
        }
        /* Only the server has it then, and the file system ends with the server. */
        close(fd);
        stuck = fork();
        if (stuck == 0 && in_exec)
                stick_in_exec(path);
        if (stuck == 0)
                stick_in_mmap(path, told[0]);
        printf("%d\n", stuck);
        fflush(stdout);
        wait_for_end();
        kill(server, SIGKILL);
        kill(stuck, SIGKILL);
        while (wait(NULL) > 0)
                ;
        return 0;
}
