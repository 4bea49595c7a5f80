/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* See agent.h. */

#include "agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "util.h"

/* By absolute path: what asks for passwords must not come out of $PATH. */
#define AGENT_PATH "/usr/bin/pkttyagent"
#define AGENT_REGISTER_MS 5000
#define AGENT_END_MS 2000

static bool is_set(const char *name) {
        const char *value = getenv(name);

        return value && *value;
}

/* In the background a question would only stop the job. */
static bool at_terminal(void) {
        return isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static bool at_desktop(void) {
        return (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && is_set("XDG_SESSION_ID");
}

bool agent_somebody_there(void) {
        return at_desktop() || at_terminal();
}

/* "PID,STARTTIME": so that nobody can take our number over between two looks. */
static void describe_self(char *dst, size_t size) {
        _cleanup_fclose_ FILE *f = fopen("/proc/self/stat", "re");
        unsigned long long start;
        char line[1024], *p;

        snprintf(dst, size, "%d", (int) getpid());
        if (!f || !fgets(line, sizeof(line), f))
                return;
        p = strrchr(line, ')'); /* the name before it may hold anything */
        if (!p)
                return;
        /* Field 3 stands behind the parenthesis, the start is field 22. */
        for (int field = 2; field < 22 && p; field++)
                p = strchr(p + 1, ' ');
        if (p && sscanf(p, "%llu", &start) == 1)
                snprintf(dst, size, "%d,%llu", (int) getpid(), start);
}

_Noreturn static void run_agent(const char *process, int notify_fd, pid_t parent) {
        char number[16];
        int null = open("/dev/null", O_RDWR);

        /* It talks to the terminal itself; its own complaints say less than polkit's refusal does. */
        if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
                _exit(EXIT_FAILURE);
        (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent || fcntl(notify_fd, F_SETFD, 0) < 0)
                _exit(EXIT_FAILURE);
        snprintf(number, sizeof(number), "%d", notify_fd);
        /*
         * As a fallback it leaves the question to a desktop's agent. Not where there is no desktop: polkit
         * looks for fallbacks only for processes in a login session, which not every shell is in.
         */
        execl(AGENT_PATH, AGENT_PATH, "--process", process, "--notify-fd", number,
              at_desktop() ? "--fallback" : (char *) NULL, (char *) NULL);
        _exit(EXIT_FAILURE);
}

void agent_start(Agent *ret) {
        _cleanup_close_ int notify_read = -1, notify_write = -1;
        pid_t self = getpid();
        char process[64];
        int fds[2];

        *ret = (Agent){};
        if (!at_terminal() || access(AGENT_PATH, X_OK) < 0 || pipe2(fds, O_CLOEXEC) < 0)
                return;
        notify_read = fds[0];
        notify_write = fds[1];
        ret->terminal_known = tcgetattr(STDIN_FILENO, &ret->terminal) == 0;
        describe_self(process, sizeof(process));

        ret->pid = fork();
        if (ret->pid == 0)
                run_agent(process, notify_write, self);
        if (ret->pid < 0) {
                ret->pid = 0;
                return;
        }
        /* It closes its end when it is registered, or by ending. */
        notify_write = close_fd(notify_write);
        (void) RETRY_ON_EINTR(poll(&(struct pollfd){ .fd = notify_read, .events = POLLIN }, 1, AGENT_REGISTER_MS));
}

void agent_stop(Agent *agent) {
        _cleanup_close_ int pidfd = -1;
        struct pollfd p;

        if (agent->pid == 0)
                return;
        pidfd = pidfd_open(agent->pid, 0);
        p = (struct pollfd){ .fd = pidfd, .events = POLLIN };
        (void) kill(agent->pid, SIGTERM);
        if (pidfd < 0 || RETRY_ON_EINTR(poll(&p, 1, AGENT_END_MS)) <= 0)
                (void) kill(agent->pid, SIGKILL);
        (void) RETRY_ON_EINTR(waitpid(agent->pid, NULL, 0));
        agent->pid = 0;
        /* Ended in the middle of a password it may have left the echo off. */
        if (agent->terminal_known)
                (void) tcsetattr(STDIN_FILENO, TCSADRAIN, &agent->terminal);
}
